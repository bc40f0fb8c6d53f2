// The program `ebb`: one sub-command each, and what a wrong command line says.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "allocator/error.h"
#include "bindings/cli/doctor/doctor_command.h"
#include "bindings/cli/environment.h"
#include "bindings/cli/exit_code.h"
#include "bindings/cli/train/train_command.h"
#include "bindings/config/run_config.h"
#include "bindings/config/settings.h"

namespace ebb::cli {
namespace {

void add_train_flags(CLI::App& train) {
  for (const config::Flag& flag : config::train_flags()) {
    const std::string name = absl::StrCat("--", flag.name);
    if (flag.value == nullptr) {
      train.add_flag(name)->description(flag.help);
    } else {
      train.add_option(name)
          ->description(flag.help)
          ->type_name(flag.value)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
  }
}

// One that is given twice was meant once: which one, nobody can tell.
void check_once(const CLI::App& train) {
  for (const config::Flag& flag : config::train_flags()) {
    const std::string name = absl::StrCat("--", flag.name);
    if (train.get_option(name)->count() < 2) continue;
    throw Error(absl::StatusCode::kInvalidArgument,
                absl::StrCat(name, " is given ", train.get_option(name)->count(),
                             " times: give it once"));
  }
}

config::Settings given(const CLI::App& train) {
  config::Settings settings;
  for (const config::Flag& flag : config::train_flags()) {
    const std::string name = absl::StrCat("--", flag.name);
    const CLI::Option& option = *train.get_option(name);
    if (option.count() == 0) continue;
    settings[flag.name] = {
        .name = name, .value = flag.value == nullptr ? "true" : option.results().front()};
  }
  return settings;
}

// Says so where the first word is no command: CLI11 would only say that one is required.
void check_command(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    names.push_back(command->get_name());
  }
  const std::string first = argc > 1 ? argv[1] : "";
  if (!first.empty() && first.front() == '-') return;
  if (std::find(names.begin(), names.end(), first) != names.end()) return;
  const std::string what =
      first.empty() ? "a command is required" : absl::StrCat("'", first, "' is no command");
  throw Error(absl::StatusCode::kInvalidArgument,
              absl::StrCat(what, "; this release has: ", absl::StrJoin(names, ", "),
                           "; `ebb --help` says what they do"));
}

int run(int argc, char** argv) {
  CLI::App app{
      "Trains inside a memory budget: activations leave for host memory in forward, "
      "and are back before backward needs them.",
      "ebb"};
  const Environment environment = read_environment();
  app.set_version_flag("--version", absl::StrCat("ebb ", environment.version, " (",
                                                 environment.commit, ")"));
  app.require_subcommand(1);
  CLI::App& train = *app.add_subcommand("train", "Train a model on a text under budgets");
  train.footer(
      "Sizes are written as 24GiB, 512MiB or a number of bytes. EBB_DEVICE_BUDGET and "
      "EBB_HOST_BUDGET set the same; a flag wins.");
  add_train_flags(train);
  CLI::App& doctor_app =
      *app.add_subcommand("doctor", "Say what this machine can do, and what is in the way");
  const CLI::Option& json = *doctor_app.add_flag("--json")->description("print JSON");
  try {
    check_command(app, argc, argv);
    app.parse(argc, argv);
    check_once(train);
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help, --version.
  } catch (const Error& error) {
    std::fprintf(stderr, "ebb: %s\n", error.what());
    return kWrongRequest;
  } catch (const CLI::ParseError& error) {
    const std::string which = train.parsed()        ? "ebb train"
                              : doctor_app.parsed() ? "ebb doctor"
                                                    : "ebb";
    std::fprintf(stderr, "ebb: %s; `%s --help` lists what works\n", error.what(),
                 which.c_str());
    return kWrongRequest;
  }
  if (doctor_app.parsed()) return doctor(this_machine(), json.count() > 0, stdout);
  return ebb::cli::train(given(train), {.out = stdout, .err = stderr});
}

}  // namespace
}  // namespace ebb::cli

int main(int argc, char** argv) {
  try {
    const int code = ebb::cli::run(argc, argv);
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    ebb::log_error("cannot write the results to standard output");
    return code == ebb::cli::kSuccess ? ebb::cli::kFailed : code;
  } catch (const std::exception& error) {
    ebb::log_error(error.what());
    return ebb::cli::kFailed;
  }
}
