# Writes SOURCE, which defines BuildCommit(), when the commit has changed: run by each build, as
#   cmake -DGIT=... -DREPOSITORY=... -DSOURCE=... -P BuildCommit.cmake
# "unknown" where there is no git or no repository; "-dirty" is behind it where files differ from it.
set(commit "unknown")
if(GIT)
  execute_process(COMMAND ${GIT} describe --always --dirty --exclude=* --abbrev=40
                  WORKING_DIRECTORY ${REPOSITORY} OUTPUT_VARIABLE described RESULT_VARIABLE status
                  ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(status EQUAL 0)
    set(commit ${described})
  endif()
endif()
file(CONFIGURE OUTPUT ${SOURCE} @ONLY CONTENT [=[
#include "compute/bench/provenance.h"

namespace gossamer::bench {

std::string_view BuildCommit() { return "@commit@"; }

}  // namespace gossamer::bench
]=])
