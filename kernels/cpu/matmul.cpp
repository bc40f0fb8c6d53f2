#include "kernels/cpu/matmul.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "dnnl.hpp"

#include "kernels/cpu/check.h"
#include "kernels/cpu/cpu_kernels.h"

namespace ebb::cpu {
namespace {

using dnnl::memory;

struct Key {
  MatmulShape shape;
  int threads = 1;

  friend bool operator==(const Key&, const Key&) = default;

  template <typename H>
  friend H AbslHashValue(H hash, const Key& key) {
    const MatmulShape& s = key.shape;
    return H::combine(std::move(hash), s.m, s.n, s.k, s.transpose_a, s.transpose_b, s.bias,
                      s.gelu, s.add, key.threads);
  }
};

memory::desc matrix(std::int64_t rows, std::int64_t columns, bool transposed) {
  const memory::dims strides =
      transposed ? memory::dims{1, rows} : memory::dims{columns, 1};
  return {memory::dims{rows, columns}, memory::data_type::f32, strides};
}

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const MatmulShape& s) {
  dnnl::post_ops post_ops;
  if (s.add) post_ops.append_sum(1.0F);
  if (s.gelu) post_ops.append_eltwise(1.0F, dnnl::algorithm::eltwise_gelu_tanh, 0.0F, 0.0F);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(post_ops);
  const memory::desc a = matrix(s.m, s.k, s.transpose_a);
  const memory::desc b = matrix(s.k, s.n, s.transpose_b);
  const memory::desc c = matrix(s.m, s.n, false);
  const dnnl::matmul::desc desc = s.bias
                                      ? dnnl::matmul::desc(a, b, matrix(1, s.n, false), c)
                                      : dnnl::matmul::desc(a, b, c);
  return {desc, attributes, engine};
}

// A product of one shape. The primitive, which is code, is made when it first runs: a dry
// run asks for sizes only.
class Product {
 public:
  Product(const dnnl::engine& engine, const MatmulShape& shape)
      : desc_(describe(engine, shape)),
        a_(desc_.src_desc(), engine, DNNL_MEMORY_NONE),
        b_(desc_.weights_desc(), engine, DNNL_MEMORY_NONE),
        bias_(desc_.bias_desc(), engine, DNNL_MEMORY_NONE),
        c_(desc_.dst_desc(), engine, DNNL_MEMORY_NONE),
        scratch_(desc_.scratchpad_desc(), engine, DNNL_MEMORY_NONE) {}

  std::size_t workspace() const { return desc_.scratchpad_desc().get_size(); }

  void run(const dnnl::stream& stream, const float* a, const float* b, const float* bias,
           float* c, void* scratch) {
    if (!primitive_) primitive_ = dnnl::matmul(desc_);
    // oneDNN takes inputs as void*, and does not write to them.
    a_.set_data_handle(const_cast<float*>(a));
    b_.set_data_handle(const_cast<float*>(b));
    bias_.set_data_handle(const_cast<float*>(bias));
    c_.set_data_handle(c);
    scratch_.set_data_handle(scratch);
    // The C call, because the C++ one makes a map of the arguments each time.
    const std::array<dnnl_exec_arg_t, 5> arguments = {{
        {DNNL_ARG_SRC, a_.get()},
        {DNNL_ARG_WEIGHTS, b_.get()},
        {DNNL_ARG_DST, c_.get()},
        {DNNL_ARG_SCRATCHPAD, scratch_.get()},
        {DNNL_ARG_BIAS, bias_.get()},
    }};
    const int count = bias == nullptr ? 4 : 5;
    const dnnl_status_t status =
        dnnl_primitive_execute(primitive_.get(), stream.get(), count, arguments.data());
    EBB_CHECK(status == dnnl_success, kInternal, "matmul: oneDNN failed with status ",
              static_cast<int>(status));
  }

 private:
  dnnl::matmul::primitive_desc desc_;
  dnnl::matmul primitive_;
  memory a_, b_, bias_, c_, scratch_;
};

// The products used last. A training step has some twenty shapes; variable sequence lengths
// bring more, and the oldest leave.
class ProductCache {
 public:
  Product& find(const MatmulShape& shape) {
    const Key key{shape, cpu_threads()};
    // oneDNN asks the calling thread's OpenMP for its count.
    if (omp_get_max_threads() != key.threads) omp_set_num_threads(key.threads);
    const auto found = products_.find(key);
    if (found != products_.end()) {
      found->second.last_use = ++clock_;
      return *found->second.product;
    }
    if (products_.size() >= kCapacity) {
      products_.erase(std::min_element(
          products_.begin(), products_.end(), [](const auto& left, const auto& right) {
            return left.second.last_use < right.second.last_use;
          }));
    }
    const auto made =
        products_.emplace(key, Entry{std::make_unique<Product>(engine_, shape), ++clock_});
    return *made.first->second.product;
  }

  const dnnl::stream& stream() const { return stream_; }

 private:
  static constexpr std::size_t kCapacity = 256;

  struct Entry {
    std::unique_ptr<Product> product;
    std::uint64_t last_use = 0;
  };

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  absl::flat_hash_map<Key, Entry> products_;
  std::uint64_t clock_ = 0;
};

// A table of function pointers has no place for state of its own. One cache for each
// calling thread needs no lock, and goes with the thread.
ProductCache& cache() {
  thread_local ProductCache products;
  return products;
}

// Calls `body`, and turns oneDNN's exception into ours.
template <typename Body>
auto guarded(const MatmulShape& s, const Body& body) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    throw Error(absl::StatusCode::kInternal,
                absl::StrCat("matmul: oneDNN refuses m = ", s.m, ", n = ", s.n,
                             ", k = ", s.k, ": ", error.what()));
  }
}

}  // namespace

std::size_t matmul_workspace(const MatmulShape& shape) {
  return guarded(shape, [&] { return cache().find(shape).workspace(); });
}

void matmul(const MatmulShape& shape, const float* a, const float* b, const float* bias,
            float* c, Workspace workspace) {
  guarded(shape, [&] {
    ProductCache& products = cache();
    Product& product = products.find(shape);
    require_workspace(workspace, product.workspace(), "matmul");
    product.run(products.stream(), a, b, bias, c, workspace.data);
  });
}

}  // namespace ebb::cpu
