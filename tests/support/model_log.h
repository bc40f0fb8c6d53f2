// Writes down what an EventModel says.

#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "runtime/device/sim/event_model.h"

namespace ebb::test {

class ModelLog final : public device::EventModel::Listener {
 public:
  struct Entry {
    device::EventModel::Span span;
  };

  void on_start(const device::EventModel::Span& span) override { last_start = span.start; }
  void on_end(const device::EventModel::Span& span) override {
    if (keep) ended.push_back({span});
  }
  void on_call_back(device::Point point, double time) override {
    if (on_callback) on_callback(point, time);
  }

  // "name start-end" of all that ended, in that order.
  std::vector<std::string> spans() const {
    std::vector<std::string> result;
    for (const Entry& entry : ended) {
      result.push_back(
          absl::StrCat(entry.span.name, " ", entry.span.start, "-", entry.span.end));
    }
    return result;
  }

  bool keep = true;
  double last_start = 0;
  std::vector<Entry> ended;
  std::function<void(device::Point, double)> on_callback;
};

}  // namespace ebb::test
