#include "runtime/device/sim/profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "allocator/error.h"
#include "allocator/read_file.h"
#include "runtime/device/sim/builtin_profiles.h"

namespace ebb::device {
namespace {

using Json = nlohmann::json;

// What a figure may be. The limits are far beyond any machine: they catch wrong units.
struct Range {
  double least;
  double most;
};
constexpr Range kRate{1, 1e19};         // Bytes or FLOPs per second.
constexpr Range kSeconds{0, 1};         // Latencies.
constexpr Range kCapacity{4096, 1e16};  // Bytes.
constexpr Range kPart{0, 1000};         // Of a rate.
constexpr Range kMoment{0, 1e9};        // Seconds of a run.
constexpr std::size_t kMaxFileBytes = 1 << 20;

class Reader {
 public:
  Reader(std::string where, const Json& json) : where_(std::move(where)), json_(json) {
    EBB_CHECK(json.is_object(), kInvalidArgument, where_, ": not a JSON object");
  }

  bool has(const char* key) const { return json_.contains(key); }

  void only(std::initializer_list<const char*> keys) const {
    for (const auto& [key, value] : json_.items()) {
      const bool known = std::any_of(keys.begin(), keys.end(),
                                     [&k = key](const char* other) { return k == other; });
      EBB_CHECK(known, kInvalidArgument, where_, ": unknown key '", key, "'; known are ",
                absl::StrJoin(keys, ", "));
    }
  }

  std::string text(const char* key) const {
    const Json& value = at(key);
    EBB_CHECK(value.is_string() && !value.get_ref<const std::string&>().empty(),
              kInvalidArgument, where_, ": '", key, "' is ", value.dump(),
              "; it must be a text");
    return value.get<std::string>();
  }

  bool flag(const char* key) const {
    if (!has(key)) return false;
    const Json& value = at(key);
    EBB_CHECK(value.is_boolean(), kInvalidArgument, where_, ": '", key, "' is ",
              value.dump(), "; it must be true or false");
    return value.get<bool>();
  }

  // {"value": number, "source": text}
  double figure(const char* key, Range range) const {
    const Reader reader(absl::StrCat(where_, ": ", key), at(key));
    reader.only({"value", "source"});
    (void)reader.text("source");
    return reader.number("value", range);
  }

  // [{"seconds": number, "d2h": number, "h2d": number}, …], in the order of their times.
  std::vector<LinkChange> link_changes(const char* key) const {
    std::vector<LinkChange> changes;
    if (!has(key)) return changes;
    EBB_CHECK(at(key).is_array(), kInvalidArgument, where_, ": '", key, "' is ",
              at(key).dump(), "; it must be a list");
    for (const Json& json : at(key)) {
      const Reader reader(absl::StrCat(where_, ": ", key, "[", changes.size(), "]"), json);
      reader.only({"seconds", "d2h", "h2d"});
      changes.push_back({reader.number("seconds", kMoment), reader.number("d2h", kPart),
                         reader.number("h2d", kPart)});
      EBB_CHECK(changes.size() < 2 || changes.rbegin()[1].seconds <= changes.back().seconds,
                kInvalidArgument, reader.where_,
                ": 'seconds' is before the change that comes first");
    }
    return changes;
  }

  LinkRate link(const char* key) const {
    const Reader reader(absl::StrCat(where_, ": ", key), at(key));
    reader.only({"bytes_per_second", "latency_seconds"});
    return {reader.figure("bytes_per_second", kRate),
            reader.figure("latency_seconds", kSeconds)};
  }

 private:
  double number(const char* key, Range range) const {
    const Json& value = at(key);
    const double number =
        value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
    EBB_CHECK(number >= range.least && number <= range.most, kInvalidArgument, where_,
              ": '", key, "' is ", value.dump(), "; it must be a number from ", range.least,
              " to ", range.most);
    return number;
  }

  const Json& at(const char* key) const {
    const auto it = json_.find(key);
    EBB_CHECK(it != json_.end(), kInvalidArgument, where_, ": '", key, "' is missing");
    return *it;
  }

  std::string where_;
  const Json& json_;
};

Profile free_profile(std::string name) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const LinkRate at_once{kInfinite, 0};
  Profile profile;
  profile.name = std::move(name);
  profile.free = true;
  profile.f32_flops_per_second = kInfinite;
  profile.bf16_flops_per_second = kInfinite;
  profile.memory_bytes_per_second = kInfinite;
  profile.d2h = profile.h2d = profile.network = at_once;
  profile.disk_write = profile.disk_read = at_once;
  return profile;
}

Profile parse(const std::string& where, absl::string_view text) {
  Json json;
  try {
    json = Json::parse(text.begin(), text.end());
  } catch (const Json::exception& error) {
    throw Error(absl::StatusCode::kInvalidArgument,
                absl::StrCat(where, ": not JSON: ", error.what()));
  }
  const Reader reader(where, json);
  if (reader.flag("free")) {
    reader.only({"name", "free"});
    return free_profile(reader.text("name"));
  }
  reader.only({"name", "free", "capacity_bytes", "f32_flops_per_second",
               "bf16_flops_per_second", "memory_bytes_per_second", "launch_seconds",
               "host_submit_seconds", "d2h", "h2d", "duplex_bytes_per_second",
               "link_changes", "network", "disk_write", "disk_read"});
  Profile profile;
  profile.name = reader.text("name");
  if (reader.has("capacity_bytes")) {
    profile.capacity_bytes =
        static_cast<std::size_t>(reader.figure("capacity_bytes", kCapacity));
  }
  profile.f32_flops_per_second = reader.figure("f32_flops_per_second", kRate);
  profile.bf16_flops_per_second = reader.figure("bf16_flops_per_second", kRate);
  profile.memory_bytes_per_second = reader.figure("memory_bytes_per_second", kRate);
  profile.launch_seconds = reader.figure("launch_seconds", kSeconds);
  profile.host_submit_seconds = reader.figure("host_submit_seconds", kSeconds);
  profile.d2h = reader.link("d2h");
  profile.h2d = reader.link("h2d");
  if (reader.has("duplex_bytes_per_second")) {
    profile.duplex_bytes_per_second = reader.figure("duplex_bytes_per_second", kRate);
  }
  profile.link_changes = reader.link_changes("link_changes");
  profile.network = reader.link("network");
  profile.disk_write = reader.link("disk_write");
  profile.disk_read = reader.link("disk_read");
  return profile;
}

}  // namespace

double Profile::seconds(const Work& work) const {
  const double peak =
      work.dtype == DType::kBF16 ? bf16_flops_per_second : f32_flops_per_second;
  return std::max(work.flops / peak, work.bytes / memory_bytes_per_second) + launch_seconds;
}

std::vector<std::string> profile_names() {
  std::vector<std::string> names;
  for (const BuiltinProfile& profile : builtin_profiles()) {
    names.emplace_back(profile.name.data(), profile.name.size());
  }
  return names;
}

Profile load_profile(const std::string& name_or_file) {
  if (absl::EndsWith(name_or_file, ".json")) {
    return parse(name_or_file, read_file(name_or_file, kMaxFileBytes));
  }
  for (const BuiltinProfile& profile : builtin_profiles()) {
    if (profile.name == name_or_file) return parse(name_or_file, profile.json);
  }
  throw Error(absl::StatusCode::kInvalidArgument,
              absl::StrCat("no profile '", name_or_file, "'; there are ",
                           absl::StrJoin(profile_names(), ", "),
                           ", and any file whose name ends in .json"));
}

}  // namespace ebb::device
