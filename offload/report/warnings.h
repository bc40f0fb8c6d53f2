// What a run did not gain, and why: said loudly, for nobody looks for what did not happen.

#pragma once

#include <vector>

#include "offload/report/report.h"

namespace ebb::offload {

// Of a run that ended, from its own figures and what was asked for; each says the reason
// and what to do. None of a run that was asked neither to checkpoint nor to offload.
//   link_replanned     the link is off by a fifth of what the device says: plans changed
//   nothing_offloaded  --offload had nothing to send
//   host_full          host memory had no room for part of what was to go
//   all_revived        all that was sent was needed again before it had left
//   peak_unchanged     the peak is no lower than without, by 2 %
//   peak_higher        it is higher
std::vector<Warning> find_warnings(const Report& report);

}  // namespace ebb::offload
