# What `cmake --install` installs: the programs, one static library merged from the components, the public
# headers, a CMake package (target gossamer::gossamer) and a pkg-config file.

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
function(gossamer_strip_installed)
  cmake_parse_arguments(ARG "" "LIBRARY" "PROGRAMS" ${ARGN})
  if(NOT GOSSAMER_STRIP OR NOT CMAKE_STRIP)
    return()
  endif()
  set(installed "\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}")
  set(commands "execute_process(COMMAND ${CMAKE_STRIP} --strip-debug
    \"${installed}/${CMAKE_INSTALL_LIBDIR}/$<TARGET_FILE_NAME:${ARG_LIBRARY}>\" COMMAND_ERROR_IS_FATAL ANY)\n")
  foreach(program ${ARG_PROGRAMS})
    string(APPEND commands "execute_process(COMMAND ${CMAKE_STRIP}
    \"${installed}/${CMAKE_INSTALL_BINDIR}/${program}\" COMMAND_ERROR_IS_FATAL ANY)\n")
  endforeach()
  install(CODE "${commands}")
endfunction()

# gossamer_package(LIBRARY ROOTS... PROGRAMS ...): the components that make the public interface, and the
# programs.
function(gossamer_package)
  cmake_parse_arguments(ARG "" "" "LIBRARY;PROGRAMS" ${ARGN})
  gossamer_closure(ROOTS ${ARG_LIBRARY} COMPONENTS components LIBRARIES libraries)

  list(TRANSFORM components REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
  add_library(gossamer_package STATIC ${objects})
  add_library(gossamer::gossamer ALIAS gossamer_package)
  set_target_properties(gossamer_package PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME gossamer
                        EXPORT_NAME gossamer)
  target_compile_features(gossamer_package INTERFACE cxx_std_20)
  target_link_libraries(gossamer_package INTERFACE ${libraries} Threads::Threads Boost::headers)
  target_include_directories(gossamer_package INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gossamer)
  install(TARGETS ${ARG_PROGRAMS})
  install(TARGETS gossamer_package EXPORT gossamer)
  install(EXPORT gossamer NAMESPACE gossamer:: FILE gossamerTargets.cmake DESTINATION ${package_dir})
  # All public headers are gossamer/NAME.h and include no others of the project (scripts/lib/layering), so that no
  # name of theirs can stand for a file of the user's.
  install(DIRECTORY proto/include/ common/include/ compute/include/ TYPE INCLUDE FILES_MATCHING PATTERN *.h)
  gossamer_strip_installed(LIBRARY gossamer_package PROGRAMS ${ARG_PROGRAMS})

  write_basic_package_version_file(gossamerConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  configure_file(cmake/gossamerConfig.cmake.in gossamerConfig.cmake @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/gossamerConfig.cmake
          ${CMAKE_BINARY_DIR}/gossamerConfigVersion.cmake DESTINATION ${package_dir})
  list(TRANSFORM libraries PREPEND "-l")
  list(JOIN libraries " " GOSSAMER_LIBRARIES)
  file(RELATIVE_PATH GOSSAMER_PREFIX_FROM_LIBDIR /prefix/${CMAKE_INSTALL_LIBDIR} /prefix)
  configure_file(cmake/gossamer.pc.in gossamer.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/gossamer.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
