"""GPT-2 in PyTorch, eager, with the parameters of `runtime/nn/gpt2.h`: the same names, shapes and order.

Linear weights are [out, in]; GELU is the tanh form; layer norm's epsilon is 1e-5; the head is
the token embedding.
"""

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, hidden, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.ln_1 = nn.LayerNorm(hidden)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(hidden, 3 * hidden), "c_proj": nn.Linear(hidden, hidden)})
        self.ln_2 = nn.LayerNorm(hidden)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(hidden, 4 * hidden), "c_proj": nn.Linear(4 * hidden, hidden)})

    def forward(self, x):
        batch, seq, hidden = x.shape
        qkv = self.attn["c_attn"](self.ln_1(x)).view(batch, seq, 3, self.heads, hidden // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        mixed = self.attn["c_proj"](mixed.transpose(1, 2).reshape(batch, seq, hidden))
        x = x + F.dropout(mixed, dropout, self.training)
        wide = F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh")
        return x + F.dropout(self.mlp["c_proj"](wide), dropout, self.training)


class Gpt2(nn.Module):
    def __init__(self, layers, heads, hidden, vocabulary, positions, dropout=0.0):
        super().__init__()
        self.dropout = dropout
        self.wte = nn.Embedding(vocabulary, hidden)
        self.wpe = nn.Embedding(positions, hidden)
        self.h = nn.ModuleList(Block(hidden, heads, dropout) for _ in range(layers))
        self.ln_f = nn.LayerNorm(hidden)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        x = F.dropout(x, self.dropout, self.training)
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def adamw(model, decays, learning_rate, betas, epsilon, weight_decay):
    """PyTorch's AdamW; `decays(name)` says to which parameters weight decay applies."""
    named = list(model.named_parameters())
    groups = [
        {"params": [p for n, p in named if decays(n)], "weight_decay": weight_decay},
        {"params": [p for n, p in named if not decays(n)], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=betas, eps=epsilon)
