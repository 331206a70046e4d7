// Bootstrap in a directory of one machine: the text of store S is the file S.store.
//
// A change holds flock on S.lock, writes a temporary file, syncs it and renames it: readers see the
// old text or the new one, whole, also after a crash. Joining holds flock on S.join, which the
// kernel releases with the process. The directory and its files are for their owner only.
//
// Members hold a shared flock on the directory itself, which the loss of any file in it leaves in
// force. Two stores of one directory share it, so that a store may seem to have members that belong
// to the other one.
//
// A change or a join makes the directory where there is none. Reading does not: no directory is no
// store.
#pragma once

#include <memory>
#include <string>

#include "common/bootstrap/bootstrap.h"

namespace gossamer {

// `must_be_private`: refuses a symbolic link, and a directory that belongs to somebody else or that
// others may enter or change, as a predictable name under /tmp calls for.
Result<std::unique_ptr<Bootstrap>> OpenDirectory(const std::string& path, bool must_be_private);

}  // namespace gossamer
