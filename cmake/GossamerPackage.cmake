# What `cmake --install` installs: the programs, one static library merged from the components and one shared library
# of the same objects, a static library of the metrics, the public headers, a CMake package (targets gossamer::gossamer,
# which is static, gossamer::shared and gossamer::metrics) and pkg-config files (gossamer, gossamer-shared,
# gossamer-metrics). GossamerDebian.cmake makes a Debian package of each
# install component: servers, tools, runtime, development.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# gossamer_closure(ROOTS ... COMPONENTS out LIBRARIES out): the project's static libraries that ROOTS consist
# of, and the names of the libraries of others that these need.
function(gossamer_closure)
  cmake_parse_arguments(ARG "" "COMPONENTS;LIBRARIES" "ROOTS" ${ARGN})
  set(pending ${ARG_ROOTS})
  set(seen "")
  set(components "")
  set(libraries "")
  while(pending)
    list(POP_FRONT pending name)
    if(name IN_LIST seen)
      continue()
    endif()
    list(APPEND seen ${name})
    if(name MATCHES "^PkgConfig::(.+)$")
      list(APPEND libraries ${${CMAKE_MATCH_1}_LIBRARIES})
    elseif(name MATCHES "^gossamer_" AND TARGET ${name})
      get_target_property(type ${name} TYPE)
      set(property LINK_LIBRARIES)
      if(type STREQUAL "INTERFACE_LIBRARY")
        set(property INTERFACE_LINK_LIBRARIES)
      else()
        list(APPEND components ${name})
      endif()
      get_target_property(dependencies ${name} ${property})
      if(dependencies)
        list(APPEND pending ${dependencies})
      endif()
    endif()
  endwhile()
  set(${ARG_COMPONENTS} ${components} PARENT_SCOPE)
  list(REMOVE_DUPLICATES libraries)
  set(${ARG_LIBRARIES} ${libraries} PARENT_SCOPE)
endfunction()

# What is installed has no debug information, which is most of its size; what is in the build directory keeps it.
option(GOSSAMER_STRIP "Install without debug information" ON)
# gossamer_strip_installed(COMPONENT KIND FILE...): FILE is relative to the prefix, KIND an option of strip.
function(gossamer_strip_installed component kind)
  if(NOT GOSSAMER_STRIP OR NOT CMAKE_STRIP)
    return()
  endif()
  foreach(file ${ARGN})
    install(CODE "execute_process(COMMAND ${CMAKE_STRIP} ${kind} --remove-section=.comment --remove-section=.note
      --enable-deterministic-archives \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${file}\" COMMAND_ERROR_IS_FATAL ANY)"
      COMPONENT ${component})
  endforeach()
endfunction()

function(gossamer_install_programs component)
  install(TARGETS ${ARGN} COMPONENT ${component})
  list(TRANSFORM ARGN PREPEND ${CMAKE_INSTALL_BINDIR}/)
  gossamer_strip_installed(${component} --strip-all ${ARGN})
endfunction()

# Changes with each incompatible change of the public headers: a virtual function or a field more is one.
set(GOSSAMER_SOVERSION 5)
# The shared library, of the objects of the static one: these are position independent in any case. Programs link
# statically all the same: a get of a cached key takes some 4 % more CPU through the shared library.
function(gossamer_shared_library objects libraries)
  set(exports ${CMAKE_SOURCE_DIR}/cmake/gossamer.map)
  add_library(gossamer_shared SHARED ${objects})
  add_library(gossamer::shared ALIAS gossamer_shared)
  set_target_properties(gossamer_shared PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME gossamer EXPORT_NAME shared
                        VERSION ${GOSSAMER_SOVERSION}.${PROJECT_VERSION_MINOR}.${PROJECT_VERSION_PATCH}
                        SOVERSION ${GOSSAMER_SOVERSION} LINK_DEPENDS ${exports})
  target_link_options(gossamer_shared PRIVATE LINKER:--version-script=${exports} LINKER:-z,defs LINKER:--as-needed)
  target_link_libraries(gossamer_shared PRIVATE $<BUILD_INTERFACE:gossamer_options> ${libraries} PUBLIC Threads::Threads
                        Boost::headers)
  target_compile_features(gossamer_shared INTERFACE cxx_std_20)
  target_include_directories(gossamer_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  install(TARGETS gossamer_shared EXPORT gossamer
          LIBRARY COMPONENT runtime NAMELINK_COMPONENT development)
  gossamer_strip_installed(runtime --strip-unneeded ${CMAKE_INSTALL_LIBDIR}/$<TARGET_FILE_NAME:gossamer_shared>)
endfunction()

# gossamer_pkg_config(NAME LIBS): NAME.pc, which has LIBS behind the directory of the library.
function(gossamer_pkg_config name GOSSAMER_PC_LIBS)
  set(GOSSAMER_PC_NAME ${name})
  file(RELATIVE_PATH GOSSAMER_PREFIX_FROM_LIBDIR /prefix/${CMAKE_INSTALL_LIBDIR} /prefix)
  configure_file(cmake/gossamer.pc.in ${name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endfunction()

# gossamer_static_library(TARGET NAME ROOTS ...): libNAME.a of all components that ROOTS consist of. Sets
# TARGET_objects, TARGET_libraries and TARGET_link_flags.
function(gossamer_static_library target name)
  cmake_parse_arguments(ARG "" "" "ROOTS" ${ARGN})
  gossamer_closure(ROOTS ${ARG_ROOTS} COMPONENTS components LIBRARIES libraries)
  list(TRANSFORM components REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
  add_library(${target} STATIC ${objects})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME ${name})
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_link_libraries(${target} INTERFACE ${libraries} Threads::Threads Boost::headers)
  target_include_directories(${target} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  install(TARGETS ${target} EXPORT gossamer COMPONENT development)
  gossamer_strip_installed(development --strip-debug ${CMAKE_INSTALL_LIBDIR}/$<TARGET_FILE_NAME:${target}>)
  list(TRANSFORM libraries PREPEND "-l" OUTPUT_VARIABLE link_flags)
  list(JOIN link_flags " " link_flags)
  foreach(variable objects libraries link_flags)
    set(${target}_${variable} ${${variable}} PARENT_SCOPE)
  endforeach()
endfunction()

# gossamer_package(LIBRARY ROOTS... METRICS ROOTS... SERVERS ... TOOLS ...): the components that make the public
# interface, those of its metrics, and the programs.
function(gossamer_package)
  cmake_parse_arguments(ARG "" "" "LIBRARY;METRICS;SERVERS;TOOLS" ${ARGN})
  gossamer_install_programs(servers ${ARG_SERVERS})
  gossamer_install_programs(tools ${ARG_TOOLS})

  gossamer_static_library(gossamer_package gossamer ROOTS ${ARG_LIBRARY})
  add_library(gossamer::gossamer ALIAS gossamer_package)
  set_target_properties(gossamer_package PROPERTIES EXPORT_NAME gossamer)
  # By its file name, since -lgossamer is the shared library where there are both.
  gossamer_pkg_config(gossamer "-l:libgossamer.a ${gossamer_package_link_flags} -pthread")
  # A library of its own, so that programs without it need none of its libraries. It has the components that it shares with
  # the store's, too: the shared library does not export them. The linker takes each from one of the two.
  gossamer_static_library(gossamer_metrics_package gossamer_metrics ROOTS ${ARG_METRICS})
  add_library(gossamer::metrics ALIAS gossamer_metrics_package)
  set_target_properties(gossamer_metrics_package PROPERTIES EXPORT_NAME metrics)
  gossamer_pkg_config(gossamer-metrics "-l:libgossamer_metrics.a ${gossamer_metrics_package_link_flags} -pthread")
  if(NOT GOSSAMER_SANITIZE)  # a sanitizer's runtime is linked to programs only
    gossamer_shared_library("${gossamer_package_objects}" "${gossamer_package_libraries}")
    gossamer_pkg_config(gossamer-shared -lgossamer)
  endif()

  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gossamer)
  install(EXPORT gossamer NAMESPACE gossamer:: FILE gossamerTargets.cmake DESTINATION ${package_dir}
          COMPONENT development)
  # All public headers are gossamer/NAME.h and include no others of the project (scripts/lib/layering), so that no
  # name of theirs can stand for a file of the user's.
  install(DIRECTORY proto/include/ common/include/ compute/include/ TYPE INCLUDE COMPONENT development
          FILES_MATCHING PATTERN *.h)
  write_basic_package_version_file(gossamerConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  configure_file(cmake/gossamerConfig.cmake.in gossamerConfig.cmake @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/gossamerConfig.cmake ${CMAKE_BINARY_DIR}/gossamerConfigVersion.cmake
          DESTINATION ${package_dir} COMPONENT development)
endfunction()
