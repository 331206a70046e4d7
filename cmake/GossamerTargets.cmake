# What every target of the project has in common: warnings, sanitizers, the linker, and one function
# for each kind of target. Dependencies are Debian packages, found here once.

include(CMakeDependentOption)
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_package(gflags REQUIRED)
pkg_check_modules(FMT REQUIRED IMPORTED_TARGET fmt>=9.1)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(GLOG REQUIRED IMPORTED_TARGET libglog)
pkg_check_modules(NUMA REQUIRED IMPORTED_TARGET numa)
pkg_check_modules(VERBS REQUIRED IMPORTED_TARGET libibverbs librdmacm)
pkg_check_modules(MEMCACHED REQUIRED IMPORTED_TARGET libmemcached)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(OPENSSL REQUIRED IMPORTED_TARGET openssl>=3)
pkg_check_modules(LUA REQUIRED IMPORTED_TARGET lua5.1)
find_package(nlohmann_json 3.11 REQUIRED)
# The tests need all of these; where one is missing, the programs are built all the same.
if(GOSSAMER_TESTS)
  set(missing "")
  find_package(GTest)
  foreach(target GTest::gtest GTest::gtest_main GTest::gmock)
    if(NOT TARGET ${target})
      list(APPEND missing ${target})
    endif()
  endforeach()
  find_package(Python3 COMPONENTS Interpreter)
  if(NOT Python3_Interpreter_FOUND)
    list(APPEND missing python3)
  endif()
  if(missing)
    list(JOIN missing ", " missing)
    message(STATUS "Only the programs are built, no tests: ${missing} not found. "
                   "Debian has what the tests need in libgtest-dev, libgmock-dev and python3")
    set(GOSSAMER_TESTS OFF)
  endif()
endif()

# With paths relative to the source directory, all clones and worktrees of a machine share one cache;
# -ffile-prefix-map below keeps their paths out of the objects.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER /usr/bin/env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=time_macros,pch_defines ${CCACHE})
endif()
find_program(MOLD mold)

# CRC32C is an instruction from SSE4.2 on; proto/crc32c.h falls back to a table elsewhere.
add_library(gossamer_options INTERFACE)
target_include_directories(gossamer_options INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
target_link_libraries(gossamer_options INTERFACE Threads::Threads)
target_compile_options(gossamer_options INTERFACE -Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor
                       -Wold-style-cast -Woverloaded-virtual -Wimplicit-fallthrough
                       -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(gossamer_options INTERFACE -march=x86-64-v2)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 sees uninitialised and dangling storage in coroutine frames and in Outcome where there is none, and
  # a mismatch where it inlines only one of a test's own operator new and delete.
  target_compile_options(gossamer_options INTERFACE -Wno-maybe-uninitialized -Wno-array-bounds
                         -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict -Wno-mismatched-new-delete)
  # Sources that are compiled together (gossamer_unite) are no headers.
  target_compile_options(gossamer_options INTERFACE -Wno-subobject-linkage)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # std::stable_sort of libstdc++ 12 uses a function that it deprecates itself.
  target_compile_options(gossamer_options INTERFACE -Wno-deprecated-declarations)
endif()
if(MOLD)
  target_link_options(gossamer_options INTERFACE -fuse-ld=mold)
endif()
if(GOSSAMER_SANITIZE)
  target_compile_options(gossamer_options INTERFACE -fsanitize=${GOSSAMER_SANITIZE}
                         -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(gossamer_options INTERFACE -fsanitize=${GOSSAMER_SANITIZE})
  if(GOSSAMER_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # A seventh less time of the compiler: AddressSanitizer finds what this check would.
    target_compile_options(gossamer_options INTERFACE -fno-sanitize=object-size)
  endif()
  if(GOSSAMER_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # Some tests have an operator new of their own, which the tool's, linked statically, would be defined beside.
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libclang_rt.tsan-${CMAKE_SYSTEM_PROCESSOR}.so
                    OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
    cmake_path(GET runtime PARENT_PATH runtime)
    target_link_options(gossamer_options INTERFACE -shared-libsan -Wl,-rpath=${runtime})
  endif()
endif()

if(GOSSAMER_FUZZ)
  target_compile_options(gossamer_options INTERFACE -fsanitize=fuzzer-no-link)  # what libFuzzer learns from
  add_custom_target(fuzzers)
endif()

# For the sanitizers' builds, which take clang++ most of the time of scripts/test. Headers of the standard library and of
# GoogleTest are precompiled, and the tests' own sources are not optimized. target_precompile_headers would pass absolute paths,
# and clones would no longer share a compiler cache: so an object library "compiles" one header, of /usr/include, with the others
# included before it.
if(GOSSAMER_PRECOMPILE)
  set(precompiled algorithm array atomic chrono condition_variable coroutine deque filesystem fstream functional map memory
      mutex optional random set span sstream string thread unordered_map vector)
  list(TRANSFORM precompiled PREPEND "SHELL:-include ")
  function(gossamer_precompiled_header name header)
    add_library(${name} OBJECT ${header})
    set_source_files_properties(${header} PROPERTIES LANGUAGE CXX)
    target_compile_options(${name} PRIVATE ${ARGN} ${precompiled}
                           "SHELL:-x c++-header" -fpch-instantiate-templates "SHELL:-Xclang -fno-pch-timestamp")
    target_link_libraries(${name} PRIVATE gossamer_options)
  endfunction()
  gossamer_precompiled_header(gossamer_precompiled /usr/include/fmt/format.h)
  set_target_properties(gossamer_precompiled PROPERTIES POSITION_INDEPENDENT_CODE ON)  # as gossamer_library has it
  if(GOSSAMER_TESTS)
    gossamer_precompiled_header(gossamer_precompiled_tests /usr/include/gmock/gmock.h -O0 "SHELL:-include fmt/format.h")
    target_link_libraries(gossamer_precompiled_tests PRIVATE GTest::gmock)
  endif()
endif()

# gossamer_use_precompiled(TARGET NAME OPTIONS...): compiles the target with the precompiled header NAME and its options, where
# headers are precompiled.
function(gossamer_use_precompiled target name)
  if(NOT GOSSAMER_PRECOMPILE)
    return()
  endif()
  get_target_property(header ${name} SOURCES)
  set(header CMakeFiles/${name}.dir${header}.o)
  target_compile_options(${target} PRIVATE ${ARGN} "SHELL:-include-pch ${header}" "SHELL:-Xclang -fno-pch-timestamp")
  get_target_property(sources ${target} SOURCES)
  set_property(SOURCE ${sources} APPEND PROPERTY OBJECT_DEPENDS ${CMAKE_BINARY_DIR}/${header})
endfunction()

# gossamer_asks_for_rules(RESULT PATH): whether a source asks which rule of the protocol is broken.
function(gossamer_asks_for_rules result path)
  file(STRINGS ${path} asks REGEX "^#include \"(common/mutants|compute/rules/rules|memory/rules)\\.h\"" LIMIT_COUNT 1)
  set(${result} "${asks}" PARENT_SCOPE)
endfunction()

# gossamer_unite(RESULT NAME SOURCES...): with GOSSAMER_UNITE, sources that include up to twelve of those sources of the target
# NAME each; otherwise these. Most of a source's time goes to its headers, and these share them: it is a third in all.
# CMake's own unity builds include by absolute paths, and clones would no longer share a compiler cache. Apart are sources with
# options of their own; and, from the other sources of a library, those that ask which rule of the protocol is broken
# (compute/verify/sim/CMakeLists.txt).
function(gossamer_unite result name)
  set_property(GLOBAL PROPERTY gossamer_sources_of_${name} ${ARGN})
  set(${result} ${ARGN} PARENT_SCOPE)
  list(LENGTH ARGN count)
  if(NOT GOSSAMER_UNITE OR count EQUAL 1)
    return()
  endif()
  set(united "")
  set(plain "")
  set(mutable "")
  foreach(source ${ARGN})
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE path)
    cmake_path(IS_PREFIX CMAKE_BINARY_DIR ${path} is_built)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    if(is_built OR options OR definitions)
      list(APPEND united ${source})
      continue()
    endif()
    gossamer_asks_for_rules(asks ${path})
    if(asks)
      list(APPEND mutable ${path})
    else()
      list(APPEND plain ${path})
    endif()
  endforeach()
  foreach(kind plain mutable)
    set(part 0)
    while(${kind})
      list(SUBLIST ${kind} 0 12 some)
      list(REMOVE_ITEM ${kind} ${some})
      set(text "")
      foreach(path ${some})
        cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
        string(APPEND text "#include \"${path}\"\n")
      endforeach()
      set(file ${CMAKE_CURRENT_BINARY_DIR}/united/${name}_${kind}_${part}.cc)
      file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
      list(APPEND united ${file})
      math(EXPR part "${part} + 1")
    endwhile()
  endforeach()
  set(${result} ${united} PARENT_SCOPE)
endfunction()

# gossamer_library(NAME SOURCES ... DEPENDS ...): a static library of one folder.
function(gossamer_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  gossamer_unite(sources ${name} ${ARG_SOURCES})
  add_library(${name} STATIC ${sources})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  gossamer_use_precompiled(${name} gossamer_precompiled)
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS} PRIVATE $<BUILD_INTERFACE:gossamer_options>)
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
endfunction()

# gossamer_program(NAME SOURCES ... DEPENDS ...): an executable in build/bin.
function(gossamer_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  gossamer_unite(sources ${name} ${ARG_SOURCES})
  add_executable(${name} ${sources})
  gossamer_use_precompiled(${name} gossamer_precompiled -fPIC)  # PIC, as it is a library's
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} gossamer_options)
endfunction()

# The label of tests that this build does without (docs/testing.md).
set(GOSSAMER_LABEL_NOT_HERE "")
if(GOSSAMER_SANITIZE MATCHES "address")
  set(GOSSAMER_LABEL_NOT_HERE no_asan)
elseif(GOSSAMER_SANITIZE MATCHES "thread")
  set(GOSSAMER_LABEL_NOT_HERE no_tsan)
elseif(CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(GOSSAMER_LABEL_NOT_HERE no_debug)
endif()

# gossamer_python_test(NAME FILE SECONDS [LABEL...]): a script that tries the built programs as users run them; its argument is
# their directory. Status 77: it cannot be run here.
function(gossamer_python_test name file seconds)
  if(NOT GOSSAMER_TESTS)
    return()
  endif()
  add_test(NAME ${name} COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/${file} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  set_tests_properties(${name} PROPERTIES LABELS "integration;${ARGN}" TIMEOUT ${seconds} SKIP_RETURN_CODE 77)
endfunction()

# gossamer_test(NAME SOURCES ... DEPENDS ... [LABELS ...] [TIMEOUT SECONDS] [OPTIMIZED]
#               [NO_ASAN_CASES ...] [NO_TSAN_CASES ...] [NO_SANITIZER_CASES ...]):
# a GoogleTest program, run by ctest as one test. OPTIMIZED: its own sources take the time, so they are
# compiled as the libraries are. NO_ASAN_CASES, NO_TSAN_CASES, NO_SANITIZER_CASES: its cases, by
# GoogleTest's patterns, that the build with that sanitizer, or with any, does without
# (docs/testing.md).
function(gossamer_test name)
  if(NOT GOSSAMER_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "OPTIMIZED" "TIMEOUT" "SOURCES;DEPENDS;LABELS;NO_ASAN_CASES;NO_TSAN_CASES;NO_SANITIZER_CASES"
                        ${ARGN})
  gossamer_unite(sources ${name} ${ARG_SOURCES})
  add_executable(${name} ${sources})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
  if(NOT ARG_OPTIMIZED)
    gossamer_use_precompiled(${name} gossamer_precompiled_tests -O0)
    # A quarter less time of g++ than with -O2. Sibling calls: a coroutine that resumes another one needs no deeper stack.
    target_compile_options(${name} PRIVATE
      "$<$<AND:$<CXX_COMPILER_ID:GNU>,$<NOT:$<CONFIG:Debug>>>:-O1;-foptimize-sibling-calls>")
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} gossamer_options GTest::gmock GTest::gtest_main)
  if("${GOSSAMER_LABEL_NOT_HERE}" IN_LIST ARG_LABELS)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)  # for clang-tidy, which checks it there
    return()
  endif()
  string(TOUPPER "${GOSSAMER_LABEL_NOT_HERE}" not_here)
  set(cases ${ARG_${not_here}_CASES})
  if(GOSSAMER_SANITIZE)
    list(APPEND cases ${ARG_NO_SANITIZER_CASES})
  endif()
  list(JOIN cases ":" cases)
  if(cases)
    string(PREPEND cases "--gtest_filter=-")
  endif()
  add_test(NAME ${name} COMMAND ${name} ${cases})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)  # against tests that hang, not against slow machines
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()

# gossamer_fuzzer(NAME SOURCES ... DEPENDS ... [LABELS ...]): a function that has to cope with any bytes,
# LLVMFuzzerTestOneInput, and the corpus in testing/corpus/NAME. With GOSSAMER_FUZZ it is a program of libFuzzer, which
# scripts/fuzz runs. Otherwise it is a test, NAME_corpus_test, which replays the corpus.
function(gossamer_fuzzer name)
  if(NOT GOSSAMER_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LABELS" ${ARGN})
  set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/testing/corpus/${name})
  file(RELATIVE_PATH relative ${CMAKE_SOURCE_DIR} ${corpus})
  if(GOSSAMER_FUZZ)
    add_executable(${name} EXCLUDE_FROM_ALL ${ARG_SOURCES})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
    target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} gossamer_options PkgConfig::GLOG)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzzers ${name})
    # For scripts/fuzz, which reads here what fuzzers there are and where their corpora lie.
    file(WRITE ${CMAKE_BINARY_DIR}/fuzz/${name}.corpus "${relative}\n")
    return()
  endif()
  gossamer_test(${name}_corpus_test SOURCES ${ARG_SOURCES} ${CMAKE_SOURCE_DIR}/common/testing/replay_corpus.cc
                DEPENDS ${ARG_DEPENDS} gossamer_built_paths PkgConfig::GLOG LABELS unit ${ARG_LABELS})
  target_compile_definitions(${name}_corpus_test PRIVATE GOSSAMER_CORPUS="${relative}")
  if(TEST ${name}_corpus_test)
    # Refused messages are logged as warnings, thousands of them.
    set_tests_properties(${name}_corpus_test PROPERTIES ENVIRONMENT GLOG_minloglevel=2)
  endif()
endfunction()

# For sources in which the time of g++ 12's vectorized copies shows. It stores the two words of a struct one by one and then
# loads both at once: such a load waits until the stores have left the store buffer. clang++ does not.
function(gossamer_copy_by_words)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -fno-tree-slp-vectorize)
  endif()
endfunction()
