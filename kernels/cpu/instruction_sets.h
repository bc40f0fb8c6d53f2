// The tables that were built, one for each instruction set.

#pragma once

#include <span>

#include "kernels/kernels.h"

namespace ebb::cpu {

struct InstructionSet {
  const char* name = "";
  bool supported = false;  // By this machine.
  const Kernels* table = nullptr;
};

// The best one first; the last one runs everywhere.
std::span<const InstructionSet> instruction_sets();

}  // namespace ebb::cpu
