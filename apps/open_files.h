// The limit on open files: a connection is one, and shells often allow 1,024 where the system
// would allow far more.
#pragma once

namespace baton {

// Raises the limit of this process as far as the system lets it; returns what it then is.
int raise_open_file_limit();

}  // namespace baton
