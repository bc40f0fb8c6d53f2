"""Records what offloading every saved tensor of a small ResNet asks of a pinned pool, in PyTorch on the CPU.

A storage that several ops save is one block; parameters and buffers stay. A block is given back when the graph
drops it, and its fence is reached when two more have been used, as copies back run ahead of backward. The format
is that of bench/pool_trace.h: record_resnet_trace.py STEPS >FILE
"""

import collections
import sys
import weakref

import torch
from torch import nn

BATCH, SIDE, CLASSES, WIDTHS = 16, 96, 100, (64, 128, 256, 512)
FENCE_LAG = 2


class Block(nn.Module):
    """The basic block of He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, figure 5 left."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        same = stride == 1 and inputs == outputs
        self.skip = nn.Identity() if same else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


def resnet18():
    layers = [nn.Conv2d(3, WIDTHS[0], 7, 2, 3, bias=False), nn.BatchNorm2d(WIDTHS[0]), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = WIDTHS[0]
    for outputs in WIDTHS:
        layers += [Block(inputs, outputs, 1 if outputs == WIDTHS[0] else 2), Block(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES))


class Saved:
    """A block on loan: given back when the last of those that share it is dropped."""

    def __init__(self, recorder, tensor):
        self.number = recorder.lend(tensor.untyped_storage().nbytes())
        self.tensor = tensor.detach()
        weakref.finalize(self, recorder.give_back, self.number)


class Recorder:
    def __init__(self, model):
        self.kept = {t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers()]}
        self.lent = 0
        self.blocks = weakref.WeakValueDictionary()
        self.waiting = collections.deque()

    def lend(self, size):
        print("+", size)
        self.lent += 1
        return self.lent - 1

    def give_back(self, number):
        print("-", number)
        self.waiting.append(number)
        self.reach(FENCE_LAG)

    def reach(self, left):
        while len(self.waiting) > left:
            print("!", self.waiting.popleft())

    def pack(self, tensor):
        address = tensor.untyped_storage().data_ptr()
        if address in self.kept or tensor.untyped_storage().nbytes() == 0:
            return tensor, None
        block = self.blocks.get((address, tensor._version))
        if block is None:
            block = self.blocks[address, tensor._version] = Saved(self, tensor)
        return tensor.detach(), block

    def unpack(self, packed):
        return packed[0]


def main(steps):
    torch.manual_seed(1)
    model = resnet18()
    recorder = Recorder(model)
    print(f"# ResNet-18, batch {BATCH} x 3 x {SIDE} x {SIDE}; recorded by tests/peers/record_resnet_trace.py")
    for _ in range(steps):
        images, labels = torch.randn(BATCH, 3, SIDE, SIDE), torch.randint(0, CLASSES, (BATCH,))
        with torch.autograd.graph.saved_tensors_hooks(recorder.pack, recorder.unpack):
            loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        del loss
        recorder.reach(0)
        print("=")


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        sys.exit(__doc__)
    main(int(sys.argv[1]))
