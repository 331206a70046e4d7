# What `cmake --install` installs beside the programs: their man pages, which are made from their own --help
# (scripts/lib/man_page), and their completion in bash.

# gossamer_compressed(OUT_VARIABLE NAME COMMAND ... DEPENDS ...): packaging/NAME.gz in the build directory has what
# COMMAND prints. The target package_files makes it.
add_custom_target(package_files ALL)
function(gossamer_compressed variable name)
  cmake_parse_arguments(ARG "" "" "COMMAND;DEPENDS" ${ARGN})
  set(file ${CMAKE_BINARY_DIR}/packaging/${name}.gz)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/packaging)
  add_custom_command(OUTPUT ${file} DEPENDS ${ARG_DEPENDS} COMMENT "Writing packaging/${name}.gz" VERBATIM
                     COMMAND bash -ec "set -o pipefail; \"$@\" | gzip -9n >\"$0.new\"; mv \"$0.new\" \"$0\"" ${file}
                             ${ARG_COMMAND})
  add_custom_target(package_file_${name} DEPENDS ${file})
  add_dependencies(package_files package_file_${name})
  set(${variable} ${file} PARENT_SCOPE)
endfunction()

# gossamer_describe_program(COMPONENT NAME SECTION DESCRIPTION SEE_ALSO)
function(gossamer_describe_program component name section description see_also)
  set(generator ${CMAKE_SOURCE_DIR}/scripts/lib/man_page)
  gossamer_compressed(page ${name}.${section} DEPENDS ${name} ${generator} COMMAND ${generator} $<TARGET_FILE:${name}>
                      ${section} ${PROJECT_VERSION} ${description} ${see_also})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT ${component})
  install(FILES ${CMAKE_SOURCE_DIR}/deploy/completion/gossamer.bash RENAME ${name}
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT ${component})
endfunction()

function(gossamer_describe_programs)
  gossamer_describe_program(tools gossamer 1 "command line of the Gossamer key-value store"
                            "gossamer-bench(1), gossamer-memory(8), gossamer-compute(8)")
  gossamer_describe_program(tools gossamer-bench 1 "benchmark of the Gossamer key-value store"
                            "gossamer(1), gossamer-memory(8)")
  gossamer_describe_program(servers gossamer-memory 8 "memory server of the Gossamer key-value store"
                            "gossamer(1), gossamer-compute(8)")
  gossamer_describe_program(servers gossamer-compute 8 "Redis protocol server of the Gossamer key-value store"
                            "gossamer(1), gossamer-memory(8)")
endfunction()
