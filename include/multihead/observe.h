// Observation: every coefficient observable, none stored.
//
//     capture.h         one call's query, key, lse, options and labels, in memory or as a file
//     attention_map.h   coefficients, rows, tiles and pyramids of it
//     statistics.h      what its heads do, in numbers
//     head_kind.h       and in a word
#pragma once

#include "multihead/attention_map.h"
#include "multihead/capture.h"
#include "multihead/head_kind.h"
#include "multihead/statistics.h"
