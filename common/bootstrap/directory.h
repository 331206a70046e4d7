// Bootstrap in a directory of one machine: the text of store S is the file S.store.
//
// A change holds flock on S.lock, writes a temporary file, syncs it and renames it: readers see the
// old or the new text, whole, also after a crash. A join holds flock on S.join, which the kernel
// releases with the process. The directory and its files are for their owner only.
//
// Members hold a shared flock on the directory itself, which survives the loss of any file in it.
// All stores of one directory share this lock, so a store may seem to have members that belong to
// another.
//
// A change or a join creates a missing directory. A read does not: no directory means no store.
#pragma once

#include <memory>
#include <string>

#include "common/bootstrap/bootstrap.h"

namespace gossamer {

// `must_be_private`: refuses a symbolic link, and a directory that belongs to another user or that
// others may enter or change, because a name under /tmp is predictable.
Result<std::unique_ptr<Bootstrap>> OpenDirectory(const std::string& path, bool must_be_private);

}  // namespace gossamer
