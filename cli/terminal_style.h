// What the terminal behind standard output can show.
#pragma once

#include "picture/terminal.h"

namespace multihead::cli {

/// No colours when standard output is no terminal, when NO_COLOR is set and not empty, or when TERM is dumb or missing; 24 bits
/// when COLORTERM or TERM promises them, else 256 colours. As wide as the terminal, else COLUMNS, else 80 characters.
picture::TerminalStyle style_of_standard_output();

}  // namespace multihead::cli
