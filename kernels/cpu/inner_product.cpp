#include "kernels/cpu/inner_product.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "dnnl.hpp"

#include "allocator/error.h"
#include "kernels/cpu/check.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/parallel.h"

namespace ebb::cpu {
namespace {

using dnnl::memory;

struct Key {
  InnerProductShape shape;
  int threads = 1;

  friend bool operator==(const Key&, const Key&) = default;

  template <typename H>  // NOLINTNEXTLINE(readability-identifier-naming): Abseil's name.
  friend H AbslHashValue(H hash, const Key& key) {
    const InnerProductShape& s = key.shape;
    return H::combine(std::move(hash), s.rows, s.in, s.out, s.bias, key.threads);
  }
};

using Description = dnnl::inner_product_forward::primitive_desc;

memory::desc plain(const memory::dims& dims) {
  return {dims, memory::data_type::f32,
          dims.size() == 1 ? memory::format_tag::a : memory::format_tag::ab};
}

Description describe(const dnnl::engine& engine, const InnerProductShape& s) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  // Weights as they lie: a blocked layout is 2 % faster, and to bring them into it at each
  // call costs 3 %.
  const memory::desc x = plain({s.rows, s.in});
  const memory::desc weight = plain({s.out, s.in});
  const memory::desc y = plain({s.rows, s.out});
  constexpr auto kKind = dnnl::prop_kind::forward_inference;
  const dnnl::inner_product_forward::desc desc =
      s.bias ? dnnl::inner_product_forward::desc(kKind, x, weight, plain({s.out}), y)
             : dnnl::inner_product_forward::desc(kKind, x, weight, y);
  return {desc, attributes, engine};
}

// A product of one shape. The primitive, which is code, is made when it first runs: a dry
// run asks for sizes only.
class Product {
 public:
  Product(const dnnl::engine& engine, const InnerProductShape& shape)
      : description_(describe(engine, shape)),
        x_(description_.src_desc(), engine, DNNL_MEMORY_NONE),
        weight_(description_.weights_desc(), engine, DNNL_MEMORY_NONE),
        bias_(description_.bias_desc(), engine, DNNL_MEMORY_NONE),
        y_(description_.dst_desc(), engine, DNNL_MEMORY_NONE),
        scratch_(description_.scratchpad_desc(), engine, DNNL_MEMORY_NONE) {}

  std::size_t workspace() const { return description_.scratchpad_desc().get_size(); }

  void run(const dnnl::stream& stream, const float* x, const float* weight,
           const float* bias, float* y, void* scratch) {
    if (!primitive_) primitive_ = dnnl::inner_product_forward(description_);
    // oneDNN takes inputs as void*, and does not write to them.
    x_.set_data_handle(const_cast<float*>(x));
    weight_.set_data_handle(const_cast<float*>(weight));
    bias_.set_data_handle(const_cast<float*>(bias));
    y_.set_data_handle(y);
    scratch_.set_data_handle(scratch);
    // The C call, because the C++ one makes a map of the arguments each time.
    const std::array<dnnl_exec_arg_t, 5> arguments = {{
        {DNNL_ARG_SRC, x_.get()},
        {DNNL_ARG_WEIGHTS, weight_.get()},
        {DNNL_ARG_DST, y_.get()},
        {DNNL_ARG_SCRATCHPAD, scratch_.get()},
        {DNNL_ARG_BIAS, bias_.get()},
    }};
    const int count = bias == nullptr ? 4 : 5;
    const dnnl_status_t status =
        dnnl_primitive_execute(primitive_.get(), stream.get(), count, arguments.data());
    EBB_CHECK(status == dnnl_success, kInternal,
              "inner_product: oneDNN failed with status ", static_cast<int>(status));
  }

 private:
  Description description_;
  dnnl::inner_product_forward primitive_;
  memory x_, weight_, bias_, y_, scratch_;
};

// The products used last. A training step has some ten shapes; variable sequence lengths
// bring more, and the oldest leave.
class ProductCache {
 public:
  Product& find(const InnerProductShape& shape) {
    use_threads_in_libraries();
    const Key key{shape, cpu_threads()};
    const auto found = products_.find(key);
    if (found != products_.end()) {
      found->second.last_use = ++clock_;
      return *found->second.product;
    }
    auto product = std::make_unique<Product>(engine_, shape);
    if (products_.size() >= kCapacity) {
      products_.erase(std::min_element(
          products_.begin(), products_.end(), [](const auto& left, const auto& right) {
            return left.second.last_use < right.second.last_use;
          }));
    }
    return *products_.emplace(key, Entry{std::move(product), ++clock_})
                .first->second.product;
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
auto guarded(const InnerProductShape& s, const Body& body) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    throw Error(absl::StatusCode::kInternal,
                absl::StrCat("inner_product: oneDNN refuses rows = ", s.rows,
                             ", in = ", s.in, ", out = ", s.out, ": ", error.what()));
  }
}

}  // namespace

std::size_t inner_product_workspace(const InnerProductShape& shape) {
  return guarded(shape, [&] { return cache().find(shape).workspace(); });
}

void inner_product(const InnerProductShape& shape, const float* x, const float* weight,
                   const float* bias, float* y, Workspace workspace) {
  guarded(shape, [&] {
    ProductCache& products = cache();
    Product& product = products.find(shape);
    require_workspace(workspace, product.workspace(), "linear_forward");
    product.run(products.stream(), x, weight, bias, y, workspace.data);
  });
}

}  // namespace ebb::cpu
