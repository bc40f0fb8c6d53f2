#include "runtime/device/sim/profile.h"

#include <cmath>
#include <fstream>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runtime/device/sim/builtin_profiles.h"
#include "tests/support/errors.h"

namespace ebb::device {
namespace {

using Json = nlohmann::json;
using test::refuses;
using ::testing::ElementsAre;

Json shipped(const std::string& name) {
  for (const BuiltinProfile& profile : builtin_profiles()) {
    if (profile.name == name) return Json::parse(profile.json.begin(), profile.json.end());
  }
  throw std::runtime_error("no such profile");
}

std::string write(const std::string& text) {
  const std::string path = ::testing::TempDir() + "ebb_profile_test.json";
  std::ofstream(path) << text;
  return path;
}

TEST(Profile, ShipsWhatTheDesignNames) {
  EXPECT_THAT(profile_names(), ElementsAre("t4-pcie3", "a100-pcie4", "h100-pcie5", "gh200",
                                           "gb300", "free"));
  for (const std::string& name : profile_names()) {
    EXPECT_EQ(load_profile(name).name, name);
  }
}

TEST(Profile, EveryShippedProfileIsPlausible) {
  for (const std::string& name : profile_names()) {
    const Profile profile = load_profile(name);
    if (profile.free) continue;
    EXPECT_TRUE(profile.capacity_bytes.has_value());
    EXPECT_GE(profile.bf16_flops_per_second, profile.f32_flops_per_second);
    EXPECT_LE(profile.host_submit_seconds, profile.launch_seconds / 2) << name;
    EXPECT_GT(profile.memory_bytes_per_second, profile.h2d.bytes_per_second);
    if (profile.duplex_bytes_per_second) {
      EXPECT_LE(*profile.duplex_bytes_per_second,
                profile.d2h.bytes_per_second + profile.h2d.bytes_per_second);
    }
  }
}

TEST(Profile, FreeHasNoCapacityAndItsCopiesTakeNoTime) {
  const Profile profile = load_profile("free");
  EXPECT_TRUE(profile.free);
  EXPECT_FALSE(profile.capacity_bytes.has_value());
  EXPECT_TRUE(std::isinf(profile.d2h.bytes_per_second));
  EXPECT_EQ(profile.seconds({1e12, 1e12, DType::kF32}), 0);
}

TEST(Profile, AnOpTakesTheLongerOfItsWorkAndItsBytesAndItsLaunch) {
  Profile profile;
  profile.f32_flops_per_second = 10;
  profile.bf16_flops_per_second = 40;
  profile.memory_bytes_per_second = 5;
  profile.launch_seconds = 0.5;
  EXPECT_EQ(profile.seconds({100, 5, DType::kF32}), 10.5);
  EXPECT_EQ(profile.seconds({100, 5, DType::kBF16}), 3);
  EXPECT_EQ(profile.seconds({100, 100, DType::kF32}), 20.5);
}

TEST(Profile, ReadsAFile) {
  Json json = shipped("a100-pcie4");
  json["name"] = "mine";
  json["capacity_bytes"]["value"] = 123456;
  const Profile profile = load_profile(write(json.dump()));
  EXPECT_EQ(profile.name, "mine");
  EXPECT_EQ(profile.capacity_bytes, 123456U);
  EXPECT_EQ(profile.d2h.bytes_per_second, load_profile("a100-pcie4").d2h.bytes_per_second);
}

TEST(Profile, ReadsHowTheLinkChangesAndNamesTheKeyThatIsWrong) {
  Json json = shipped("a100-pcie4");
  json["link_changes"] = {{{"seconds", 1}, {"d2h", 0.5}, {"h2d", 1}},
                          {{"seconds", 2}, {"d2h", 1}, {"h2d", 0}}};
  const Profile profile = load_profile(write(json.dump()));
  ASSERT_EQ(profile.link_changes.size(), 2U);
  EXPECT_EQ(profile.link_changes[0].d2h, 0.5);
  EXPECT_EQ(profile.link_changes[1].seconds, 2);
  EXPECT_EQ(profile.link_changes[1].h2d, 0);
  const auto load = [](const Json& wrong) {
    return [path = write(wrong.dump())] { (void)load_profile(path); };
  };
  json["link_changes"][1]["seconds"] = 0.5;
  EXPECT_THAT(load(json), refuses("link_changes[1]: 'seconds'"));
  json["link_changes"][1]["seconds"] = 2;
  json["link_changes"][1]["h2d"] = -1;
  EXPECT_THAT(load(json), refuses("link_changes[1]: 'h2d' is -1"));
  json["link_changes"][1].erase("h2d");
  EXPECT_THAT(load(json), refuses("link_changes[1]: 'h2d' is missing"));
  json["link_changes"] = 7;
  EXPECT_THAT(load(json), refuses("'link_changes' is 7; it must be a list"));
}

TEST(Profile, SaysWhichNamesWouldWork) {
  EXPECT_THAT([] { load_profile("a100"); }, refuses("'a100'", "a100-pcie4, h100-pcie5"));
}

TEST(Profile, NamesAFileThatIsNotThere) {
  EXPECT_THAT([] { load_profile("/nowhere/p.json"); },
              refuses("/nowhere/p.json", "No such"));
}

TEST(Profile, NamesTheFileTheKeyAndTheValueThatIsWrong) {
  const std::vector<std::pair<Json, std::string>> values = {
      {nullptr, "null"},    {-1, "-1"},      {0, "0"},
      {"fast", "\"fast\""}, {1e30, "1e+30"}, {true, "true"}};
  for (const auto& [value, words] : values) {
    Json json = shipped("gh200");
    json["d2h"]["bytes_per_second"]["value"] = value;
    const std::string path = write(json.dump());
    EXPECT_THAT([&] { load_profile(path); }, refuses(path, "d2h: bytes_per_second"));
    EXPECT_THAT([&] { load_profile(path); }, refuses("'value' is", words));
  }
}

TEST(Profile, RefusesNegativeLatencies) {
  Json json = shipped("gh200");
  json["launch_seconds"]["value"] = -1e-6;
  const std::string path = write(json.dump());
  EXPECT_THAT([&] { load_profile(path); }, refuses("launch_seconds", "-1e-06"));
}

TEST(Profile, RefusesUnknownMissingAndUnsourcedKeys) {
  Json json = shipped("gh200");
  json["bandwidth"] = 3;
  const std::string path = write(json.dump());
  EXPECT_THAT([&] { load_profile(path); }, refuses("unknown key 'bandwidth'", "network"));
  json.erase("bandwidth");
  json.erase("h2d");
  (void)write(json.dump());
  EXPECT_THAT([&] { load_profile(path); }, refuses("'h2d'", "missing"));
  json = shipped("gh200");
  json["h2d"]["latency_seconds"].erase("source");
  (void)write(json.dump());
  EXPECT_THAT([&] { load_profile(path); }, refuses("h2d: latency_seconds", "'source'"));
}

TEST(Profile, RefusesWhatIsNotAProfileAtAll) {
  for (const char* text : {"", "{", "[]", "3", "{\"name\": \"x\", \"d2h\": NaN}", "{}"}) {
    const std::string path = write(text);
    EXPECT_THAT([&] { load_profile(path); }, refuses(path, ":")) << text;
  }
}

}  // namespace
}  // namespace ebb::device
