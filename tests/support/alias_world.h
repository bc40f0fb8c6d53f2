// Random views of random storages through the offload engine, with a model of what has to
// come back and of what may lie on the host meanwhile.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "allocator/error.h"
#include "tests/support/offload_world.h"

namespace ebb::test {

// Which bytes are meant: those of a storage at a version. A tensor that came back is still
// over the bytes that it was saved from.
struct Root {
  std::uint64_t storage = 0;
  std::uint64_t version = 0;
};

inline std::uint8_t byte_of(std::uint64_t seed, std::int64_t place) {
  const std::uint64_t mixed = (seed * 0x9E3779B97F4A7C15U) ^
                              (static_cast<std::uint64_t>(place) * 0xD6E8FEB86659FD93U);
  return static_cast<std::uint8_t>(mixed >> 40);
}

// Calls visit(offset in bytes) for each element.
template <typename Visit>
void for_each_element(const tensor::Shape& shape, const tensor::Shape& strides,
                      std::int64_t at, std::int64_t size, std::size_t dimension,
                      const Visit& visit) {
  if (dimension == shape.size()) return visit(at);
  for (std::int64_t i = 0; i < shape[dimension]; ++i) {
    for_each_element(shape, strides, at + i * strides[dimension] * size, size,
                     dimension + 1, visit);
  }
}

// The model: the union of the saved tensors' bytes, in runs that overlap; a run is on the
// host until the last of them is gone.
class HostModel {
 public:
  struct Run {
    std::uint64_t storage;
    std::uint64_t version;
    std::int64_t begin;
    std::int64_t end;
    std::size_t saved;
    std::size_t id;  // What its members are told by.
  };

  std::size_t add(const Root& root, std::int64_t begin, std::int64_t end) {
    Run whole{root.storage, root.version, begin, end, 1, next_++};
    runs_.remove_if([&](const Run& run) {
      const bool same = run.storage == root.storage && run.version == root.version;
      if (!same || run.end <= begin || end <= run.begin) return false;
      whole.begin = std::min(whole.begin, run.begin);
      whole.end = std::max(whole.end, run.end);
      whole.saved += run.saved;
      joined_[run.id] = whole.id;
      return true;
    });
    runs_.push_back(whole);
    return whole.id;
  }
  void remove(std::size_t id) {
    id = find(id);
    runs_.remove_if([&](Run& run) { return run.id == id && --run.saved == 0; });
  }
  bool has(std::size_t id) const {
    id = find(id);
    return std::any_of(runs_.begin(), runs_.end(),
                       [&](const Run& run) { return run.id == id; });
  }
  std::size_t bytes() const {
    std::size_t bytes = 0;
    for (const Run& run : runs_) bytes += static_cast<std::size_t>(run.end - run.begin);
    return bytes;
  }

 private:
  std::size_t find(std::size_t id) const {
    for (auto it = joined_.find(id); it != joined_.end(); it = joined_.find(id)) {
      id = it->second;
    }
    return id;
  }

  std::list<Run> runs_;
  absl::flat_hash_map<std::size_t, std::size_t> joined_;
  std::size_t next_ = 1;
};

// A tensor, and the bytes that it is over.
struct Known {
  Tensor tensor;
  std::uint64_t seed = 0;     // They are byte_of(seed, offset + shift).
  std::int64_t shift = 0;     // From where they are to where they were written, in bytes.
  std::uint64_t version = 0;  // Of its storage, as long as that is so.
  std::size_t run = 0;        // It came back from this one; 0: it was made here.
  Root root = {};             // There it was saved from,
  std::int64_t moved = 0;     // at its offset + this.

  bool valid() const { return tensor.storage()->version()->value == version; }
};

struct KnownSaved {
  std::unique_ptr<autograd::PackedTensor> packed;  // Or:
  Tensor kept;
  Root root;
  std::uint64_t seed = 0;
  std::int64_t shift = 0;  // From `begin` to where it was written.
  tensor::Shape shape;
  tensor::Shape strides;
  DType dtype = DType::kU8;
  std::int64_t begin = 0;  // Of its first byte, where it was.
  std::shared_ptr<tensor::Version> version;
  std::uint64_t saved_version = 0;
  std::size_t run = 0;  // In the model; 0: none.
  bool held = false;    // On the device, for lack of room.
};

class AliasWorld {
 public:
  using Graph = std::vector<KnownSaved>;

  AliasWorld(std::uint64_t seed, const WorldOptions& options)
      : world(options), random_(seed) {}

  std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : random_() % n; }

  Known make(std::size_t bytes) {
    Known known{
        Tensor::empty(world.device, {static_cast<std::int64_t>(bytes)}, DType::kU8)};
    write(known);
    return known;
  }

  // Writes the bytes from the tensor's first to its last in place.
  void write(Known& known) {
    const tensor::StorageRef& storage = known.tensor.storage();
    const device::Access access = known.tensor.access(device::Access::Mode::kWrite);
    const auto begin = static_cast<std::int64_t>(access.address - storage->address());
    const auto size = static_cast<std::int64_t>(access.bytes);
    const Tensor flat = Tensor::over(storage, {size}, DType::kU8, begin);
    const std::uint64_t seed = random_();
    auto* bytes = static_cast<std::uint8_t*>(flat.data());
    tensor::launch(op("write"), {}, {flat}, [=](void*) {
      for (std::int64_t i = 0; i < size; ++i) bytes[i] = byte_of(seed, begin + i);
    });
    tensor::written_in_place(flat);
    known = {known.tensor, seed, 0, storage->version()->value};
  }

  // A random view within the tensor's first and last byte.
  Known view(const Known& known) {
    constexpr DType kTypes[] = {DType::kU8, DType::kBF16, DType::kF32, DType::kI64};
    const DType dtype = kTypes[below(4)];
    const auto size = static_cast<std::int64_t>(size_of(dtype));
    const tensor::StorageRef& storage = known.tensor.storage();
    const device::Access access = known.tensor.access(device::Access::Mode::kRead);
    const auto first = static_cast<std::int64_t>(access.address - storage->address());
    const std::int64_t low = (first + size - 1) / size;
    const std::int64_t high = (first + static_cast<std::int64_t>(access.bytes)) / size;
    if (high <= low) return known;
    const std::int64_t offset = low + pick(high - low);
    std::int64_t left = high - offset - 1;  // Elements behind the first.
    tensor::Shape shape;
    tensor::Shape strides;
    for (std::uint64_t d = below(4); d > 0; --d) {
      const std::int64_t stride = below(4) == 0 ? 0 : 1 + pick(below(2) == 0 ? 3 : 300);
      const std::int64_t most = stride == 0 ? 4 : 1 + left / stride;
      const std::int64_t count = below(30) == 0 ? 0 : 1 + pick(std::min(most, cap(shape)));
      shape.push_back(count);
      strides.push_back(stride);
      if (count > 0) left -= (count - 1) * stride;
    }
    Known view = known;
    view.tensor = Tensor::over(storage, shape, strides, dtype, offset);
    return view;
  }

  KnownSaved save(const Known& known) {
    KnownSaved saved;
    const Tensor& tensor = known.tensor;
    const tensor::StorageRef& storage = tensor.storage();
    const device::Access access = tensor.access(device::Access::Mode::kRead);
    // What came back is the block that it came from, as long as that is there.
    const bool again = known.run != 0 && model.has(known.run);
    saved.root = again ? known.root : Root{storage->id(), known.version};
    saved.seed = known.seed;
    saved.shift = known.shift - (again ? known.moved : 0);
    saved.shape = tensor.shape();
    saved.strides = tensor.strides();
    saved.dtype = tensor.dtype();
    saved.begin = static_cast<std::int64_t>(access.address - storage->address()) +
                  (again ? known.moved : 0);
    saved.version = storage->version();
    saved.saved_version = storage->version()->value;
    const std::size_t no_room = world.engine->figures().no_room_bytes;
    saved.packed = world.engine->pack(tensor, World::site(0)).packed;
    saved_bytes += access.bytes;
    saved.held = world.engine->figures().no_room_bytes > no_room;
    if (saved.packed == nullptr) {
      saved.kept = tensor;
    } else if (saved.held) {
      return saved;
    } else if (access.bytes > 0) {
      saved.run = model.add(saved.root, saved.begin,
                            saved.begin + static_cast<std::int64_t>(access.bytes));
    }
    return saved;
  }

  void drop(KnownSaved& saved) {
    if (saved.run != 0) model.remove(saved.run);
    saved = {};
  }

  // What comes back, checked on the device; nothing where it must be refused.
  std::optional<Known> use(KnownSaved& saved) {
    const bool stale = saved.version->value != saved.saved_version;
    if (saved.kept.defined())
      return stale ? std::optional<Known>() : came(saved, saved.kept);
    if (!stale || (saved.run == 0 && !saved.held))
      return came(saved, saved.packed->unpack());
    try {
      (void)saved.packed->unpack();
      ++wrong;  // It came back.
    } catch (const Error& error) {
      wrong += error.code() != absl::StatusCode::kFailedPrecondition;
    }
    return std::nullopt;
  }

  // Waits, and compares what lies on the host with the model.
  void settle() {
    world.finish();
    world.pool.collect();
    wrong += world.pool.stats().requested_bytes != model.bytes();
  }

  World world;
  HostModel model;
  std::size_t saved_bytes = 0;
  std::size_t wrong = 0;

 private:
  static device::OpInfo op(const char* name) {
    device::OpInfo info;
    info.name = name;
    info.work.flops = 1e4;
    return info;
  }
  std::int64_t pick(std::int64_t n) {
    return static_cast<std::int64_t>(below(static_cast<std::uint64_t>(n)));
  }
  // A bound on a size, so that views have few elements.
  static std::int64_t cap(const tensor::Shape& shape) {
    return shape.empty() ? 20000 : shape.size() == 1 ? 50 : 3;
  }

  Known came(const KnownSaved& saved, const Tensor& tensor) {
    wrong += tensor.shape() != saved.shape || tensor.strides() != saved.strides ||
             tensor.dtype() != saved.dtype || &tensor.device() != &world.device;
    const auto begin = tensor.offset() * static_cast<std::int64_t>(size_of(saved.dtype));
    const std::int64_t moved = saved.begin - begin;
    const std::int64_t shift = moved + saved.shift;
    if (tensor.elements() > 0) {
      const auto* bytes =
          reinterpret_cast<const std::uint8_t*>(tensor.storage()->address());
      const auto size = static_cast<std::int64_t>(size_of(saved.dtype));
      tensor::launch(op("check"), {tensor}, {},
                     [=, this, shape = saved.shape, strides = saved.strides,
                      seed = saved.seed](void*) {
                       for_each_element(shape, strides, begin, size, 0,
                                        [&](std::int64_t at) {
                                          for (std::int64_t i = at; i < at + size; ++i) {
                                            wrong += bytes[i] != byte_of(seed, i + shift);
                                          }
                                        });
                     });
    }
    return {tensor,    saved.seed, shift, tensor.storage()->version()->value,
            saved.run, saved.root, moved};
  }

  std::mt19937_64 random_;
};

}  // namespace ebb::test
