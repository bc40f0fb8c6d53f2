#include "bindings/config/settings.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace ebb::config {
namespace {

Lookup variables(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

TEST(SettingsTest, TakesBudgetsFromTheEnvironmentUnderTheirOwnName) {
  const Settings settings = environment_settings(variables(
      {{"EBB_HOST_BUDGET", "1GiB"}, {"EBB_DEVICE_BUDGET", "2GiB"}, {"HOME", "/"}}));
  ASSERT_EQ(settings.size(), 2U);
  EXPECT_EQ(settings.at("host-budget").value, "1GiB");
  EXPECT_EQ(settings.at("host-budget").name, "EBB_HOST_BUDGET");
  EXPECT_EQ(settings.at("device-budget").value, "2GiB");
}

TEST(SettingsTest, NamesABudgetThatIsEmpty) {
  for (const char* name : {"EBB_HOST_BUDGET", "EBB_DEVICE_BUDGET"}) {
    EXPECT_THAT(
        [&] {
          environment_settings(variables({{name, ""}}));
        },
        test::refuses(name, "is empty", "unset it"));
  }
  EXPECT_TRUE(environment_settings(variables({{"EBB_NVME", ""}})).empty());
}

TEST(SettingsTest, SaysThatItHasNoUseForAnNvmeFolder) {
  EXPECT_THAT(
      [] {
        environment_settings(variables({{"EBB_NVME", "/scratch"}}));
      },
      test::refuses("EBB_NVME", "unset"));
}

TEST(SettingsTest, AFlagWinsOverTheEnvironmentAndBothOverAFile) {
  const Settings all =
      merged({.flags = {{"host-budget", {"--host-budget", "3GiB"}}},
              .environment = {{"host-budget", {"EBB_HOST_BUDGET", "1GiB"}},
                              {"device-budget", {"EBB_DEVICE_BUDGET", "2GiB"}}},
              .file = {{"host-budget", {"host-budget in a.json", "4GiB"}},
                       {"device-budget", {"device-budget in a.json", "5GiB"}},
                       {"steps", {"steps in a.json", "7"}}}});
  EXPECT_EQ(all.at("host-budget").value, "3GiB");
  EXPECT_EQ(all.at("host-budget").name, "--host-budget");
  EXPECT_EQ(all.at("device-budget").value, "2GiB");
  EXPECT_EQ(all.at("device-budget").name, "EBB_DEVICE_BUDGET");
  EXPECT_EQ(all.at("steps").name, "steps in a.json");
  EXPECT_EQ(all.size(), 3U);
}

}  // namespace
}  // namespace ebb::config
