# The Debian packages that `cpack` makes in the build directory (scripts/package), one of each install component:
#   gossamer         servers: the programs, systemd's units, the user, /etc/gossamer
#   gossamer-tools   tools: the programs, gossamer-cluster, and most of deploy/ in /usr/share/gossamer
#   libgossamer5     runtime: the shared library
#   libgossamer-dev  development: headers, static library, CMake package, pkg-config
# What only a package has (units, /etc, changelogs) is not part of `cmake --install`.

# gossamer_package_file(COMPONENT DESTINATION FILE...): a file that only the package has.
function(gossamer_package_file component destination)
  install(FILES ${ARGN} DESTINATION ${destination} COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

# gossamer_debian_package(COMPONENT NAME SECTION DESCRIPTION [DEPENDS ...] [RECOMMENDS ...] [SUGGESTS ...]): the first
# line of DESCRIPTION is the summary.
macro(gossamer_debian_package component name section description)
  cmake_parse_arguments(ARG "" "" "DEPENDS;RECOMMENDS;SUGGESTS" ${ARGN})
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${description}")
  foreach(relation DEPENDS RECOMMENDS SUGGESTS)
    list(JOIN ARG_${relation} ", " CPACK_DEBIAN_${upper}_PACKAGE_${relation})
  endforeach()
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  gossamer_package_file(${component} /usr/share/doc/${name} ${CMAKE_SOURCE_DIR}/deploy/debian/copyright ${changelog})
endmacro()

# gossamer_deploy_files(COMPONENT): what runs and watches a store on many machines. deploy/ is for programs that were
# installed by hand; the same files in a package have its paths and names.
function(gossamer_deploy_files component)
  set(share ${CMAKE_BINARY_DIR}/packaging/share/gossamer)
  file(REMOVE_RECURSE ${share})
  file(GLOB_RECURSE files RELATIVE ${CMAKE_SOURCE_DIR}/deploy CONFIGURE_DEPENDS
       deploy/ansible/*.yml deploy/ansible/*.j2 deploy/grafana/*.json deploy/k8s/*.yaml deploy/k8s/*.flags deploy/lib/*
       deploy/prometheus/*.yml deploy/slurm/*.sbatch deploy/systemd/*.service deploy/systemd/*.mount)
  foreach(file cluster.sh hosts.conf.example ${files})
    set(source ${CMAKE_SOURCE_DIR}/deploy/${file})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    get_filename_component(directory ${share}/${file} DIRECTORY)
    file(MAKE_DIRECTORY ${directory})
    # By sed, as ; and [ in a file mean something to CMake.
    execute_process(COMMAND sed -e s|/usr/local/bin|/usr/bin|g -e s|deploy/cluster[.]sh|gossamer-cluster|g
                            -e s|deploy/lib/|/usr/share/gossamer/lib/|g -e s|deploy/k8s|/usr/share/gossamer/k8s|g
                            -e s|deploy/slurm|/usr/share/gossamer/slurm|g ${source}
                    OUTPUT_FILE ${share}/${file} COMMAND_ERROR_IS_FATAL ANY)
    file(CHMOD ${share}/${file} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  endforeach()
  file(CHMOD ${share}/cluster.sh ${share}/lib/agent ${share}/slurm/gossamer.sbatch
       PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  install(DIRECTORY ${share} DESTINATION /usr/share COMPONENT ${component} EXCLUDE_FROM_ALL USE_SOURCE_PERMISSIONS)
  gossamer_package_file(${component} /usr/share/doc/gossamer-tools docs/bootstrap.md docs/deploy.md docs/metrics.md docs/operations.md
                        docs/redis.md docs/sizing.md)

  # The link leads to the script in the build directory as in /usr.
  set(program ${CMAKE_BINARY_DIR}/packaging/bin/gossamer-cluster)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/packaging/bin)
  file(CREATE_LINK ../share/gossamer/cluster.sh ${program} SYMBOLIC)
  gossamer_package_file(${component} /usr/bin ${program})
  set(generator ${CMAKE_SOURCE_DIR}/scripts/lib/man_page)
  gossamer_compressed(page gossamer-cluster.1 DEPENDS ${generator} ${CMAKE_SOURCE_DIR}/deploy/cluster.sh
                      COMMAND ${generator} ${program} 1 ${PROJECT_VERSION} "Gossamer stores on several machines, over ssh"
                              "gossamer(1), gossamer-memory(8), gossamer-compute(8)")
  gossamer_package_file(${component} /usr/share/man/man1 ${page})
  install(FILES deploy/completion/gossamer.bash RENAME gossamer-cluster COMPONENT ${component} EXCLUDE_FROM_ALL
          DESTINATION /usr/share/bash-completion/completions)
endfunction()

set(GOSSAMER_MAINTAINER "Gossamer maintainers <maintainers@users.noreply.a-seed-33f3c9d8.example>" CACHE STRING
    "The field Maintainer of the Debian packages")

# Requires: gossamer_package and gossamer_describe_programs were called.
function(gossamer_debian_packages)
  set(CPACK_PACKAGE_CONTACT ${GOSSAMER_MAINTAINER})
  execute_process(COMMAND git log -1 --format=%cD WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE date
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT date)  # a source tree without its repository
    string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
  endif()
  set(GOSSAMER_BUILD_DATE ${date})
  configure_file(deploy/debian/changelog.in packaging/changelog @ONLY)
  gossamer_compressed(changelog changelog COMMAND cat ${CMAKE_BINARY_DIR}/packaging/changelog
                      DEPENDS ${CMAKE_BINARY_DIR}/packaging/changelog)

  # What servers of one store must agree on: postinst restarts only servers of the same.
  set(GOSSAMER_FORMATS "")
  foreach(header proto/control.h proto/region.h proto/region_file.h common/fabric/verbs/wire.h)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${header})
    file(STRINGS ${header} line REGEX "k(Protocol|Format|RegionFile)Version = [0-9]+")
    if(NOT line MATCHES "Version = ([0-9]+)")
      message(FATAL_ERROR "${header} tells of no version")
    endif()
    list(APPEND GOSSAMER_FORMATS ${CMAKE_MATCH_1})
  endforeach()
  list(JOIN GOSSAMER_FORMATS . GOSSAMER_FORMATS)
  configure_file(deploy/debian/postinst.in packaging/postinst @ONLY)

  # The units of deploy/systemd are for programs that were installed by hand.
  foreach(unit gossamer-memory@.service gossamer-compute@.service)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/deploy/systemd/${unit})
    file(READ deploy/systemd/${unit} text)
    string(REPLACE /usr/local/bin/ /usr/bin/ text "${text}")
    string(REPLACE "\nEnvironment=" "\nEnvironment=GOSSAMER_FORMATS=${GOSSAMER_FORMATS}\nEnvironment=" text "${text}")
    file(WRITE ${CMAKE_BINARY_DIR}/packaging/${unit} "${text}")
    gossamer_package_file(servers /lib/systemd/system ${CMAKE_BINARY_DIR}/packaging/${unit})
  endforeach()
  gossamer_package_file(servers /lib/systemd/system deploy/systemd/run-gossamer_regions.mount)
  install(FILES deploy/systemd/gossamer.sysusers.conf RENAME gossamer.conf DESTINATION /usr/lib/sysusers.d
          COMPONENT servers EXCLUDE_FROM_ALL)
  gossamer_package_file(servers /etc/gossamer deploy/etc/memory-0.flags deploy/etc/compute-0.flags)
  file(WRITE ${CMAKE_BINARY_DIR}/packaging/conffiles "/etc/gossamer/compute-0.flags\n/etc/gossamer/memory-0.flags\n")
  gossamer_deploy_files(tools)
  set(scripts deploy/debian/prerm deploy/debian/postrm)
  list(TRANSFORM scripts PREPEND ${CMAKE_SOURCE_DIR}/)
  list(APPEND scripts ${CMAKE_BINARY_DIR}/packaging/postinst)
  set(CPACK_DEBIAN_SERVERS_PACKAGE_CONTROL_EXTRA ${scripts} ${CMAKE_BINARY_DIR}/packaging/conffiles)

  gossamer_debian_package(servers gossamer database "key-value store on disaggregated memory: servers
Gossamer keeps an ordered key-value store in the memory of other machines,
which its clients read and write with one-sided RDMA. On one machine they
share memory instead.
.
This package has the memory server, the compute server, which speaks the
Redis protocol, and their systemd units. No server starts before its flags
in /etc/gossamer are set and its unit is enabled."
    DEPENDS passwd RECOMMENDS gossamer-tools ibverbs-providers SUGGESTS memcached)
  gossamer_debian_package(tools gossamer-tools database "key-value store on disaggregated memory: tools
Gossamer keeps an ordered key-value store in the memory of other machines,
which its clients read and write with one-sided RDMA.
.
This package has the command line client, the benchmark, and what runs a
store on several machines: gossamer-cluster over ssh, Ansible playbooks,
manifests for Kubernetes, a batch script for Slurm, and rules and a
dashboard for Prometheus and Grafana, in /usr/share/gossamer."
    RECOMMENDS ibverbs-providers openssh-client SUGGESTS ansible-core memcached prometheus)
  set(library libgossamer${GOSSAMER_SOVERSION})
  gossamer_debian_package(runtime ${library} libs "key-value store on disaggregated memory: shared library
Gossamer keeps an ordered key-value store in the memory of other machines,
which its clients read and write with one-sided RDMA.
.
This package has the shared library of programs that are clients of a store,
or that have a store inside their process."
    RECOMMENDS ibverbs-providers)
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/deploy/debian/triggers)
  gossamer_debian_package(development libgossamer-dev libdevel "key-value store on disaggregated memory: development
Gossamer keeps an ordered key-value store in the memory of other machines,
which its clients read and write with one-sided RDMA.
.
This package has the C++ headers, the static libraries, and files for CMake and
pkg-config."
    DEPENDS "${library} (= ${PROJECT_VERSION})" libboost-dev libfmt-dev libgoogle-glog-dev libhwy-dev libibverbs-dev
            libmemcached-dev librdmacm-dev libsasl2-dev
    RECOMMENDS prometheus-cpp-dev)

  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGE_NAME gossamer)
  set(CPACK_PACKAGE_VENDOR "")
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_SET_DESTDIR ON)  # for /etc and /lib
  set(CPACK_INSTALL_PREFIX /usr)
  set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
      WORLD_READ WORLD_EXECUTE)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
  set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
  include(CPack)
  add_dependencies(package_files gossamer_package gossamer_metrics_package gossamer_shared)
endfunction()
