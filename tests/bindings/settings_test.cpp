#include "bindings/config/settings.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/error.h"

namespace ebb::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Property;
using ::testing::Throws;

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

TEST(SettingsTest, AnEmptyVariableIsNotSet) {
  EXPECT_TRUE(
      environment_settings(variables({{"EBB_HOST_BUDGET", ""}, {"EBB_NVME", ""}})).empty());
}

TEST(SettingsTest, SaysThatItHasNoUseForAnNvmeFolder) {
  EXPECT_THAT(
      [] {
        environment_settings(variables({{"EBB_NVME", "/scratch"}}));
      },
      Throws<Error>(
          AllOf(Property(&Error::code, absl::StatusCode::kInvalidArgument),
                Property(&Error::what, AllOf(HasSubstr("EBB_NVME"), HasSubstr("unset"))))));
}

TEST(SettingsTest, AFlagWinsOverTheEnvironment) {
  const Settings flags{{"host-budget", {"--host-budget", "3GiB"}}};
  const Settings both = merged(flags, {{"host-budget", {"EBB_HOST_BUDGET", "1GiB"}},
                                       {"device-budget", {"EBB_DEVICE_BUDGET", "2GiB"}}});
  EXPECT_EQ(both.at("host-budget").value, "3GiB");
  EXPECT_EQ(both.at("device-budget").value, "2GiB");
}

}  // namespace
}  // namespace ebb::config
