// Several threads that share the items of a batch.
#pragma once

#include "gtr/portable.hpp"

namespace gtr {

// Calls work(context, team, begin, end) until all items are done; a team is a thread, numbered from 0.
//
// Threads are started for each call: that costs some ten microseconds, and there is nothing that a fork of the process
// could lose. What the work throws is thrown here.
void run_teams(i64 n_items, i64 n_teams, void (*work)(void*, i64, i64, i64), void* context);

}  // namespace gtr
