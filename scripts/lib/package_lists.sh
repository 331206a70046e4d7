# Which Debian packages are needed for what. To be sourced by bash scripts, beside packages.sh.

# shellcheck shell=bash disable=SC2034  # for the scripts that source this

# To build the programs.
readonly kBuildPackages=(
  g++ cmake ninja-build pkg-config ccache mold git ca-certificates
  libibverbs-dev librdmacm-dev libnuma-dev libfmt-dev libgflags-dev libhwy-dev libgoogle-glog-dev
  libmemcached-dev libsasl2-dev libssl-dev  # its pkg-config file asks for the other two; TLS is of the last one
  libboost-dev nlohmann-json3-dev libedit-dev libzstd-dev libxxhash-dev
  liblua5.1-0-dev  # scripts of Redis clients
  prometheus-cpp-dev  # for the admin endpoint: its core library
  libabsl-dev)  # absl::btree_map, for gossamer-lab

# To run them. memcached and the RDMA providers are needed where a store spans machines.
readonly kRunPackages=(memcached ibverbs-providers wamerican)

# To make Debian packages of them, and to check those: scripts/package.
readonly kPackagingPackages=(dpkg-dev lintian)

# To make three hosts of network namespaces (scripts/tests/three_hosts.sh) and run a store on them.
readonly kHostPackages=(
  iproute2 openssh-client openssh-server ansible-core python3
  redis-tools)  # redis-cli, redis-benchmark, and as redis-check-rdb the server

# To build and run the tests.
readonly kTestPackages=(
  "${kPackagingPackages[@]}" "${kHostPackages[@]}"
  libgtest-dev libgmock-dev clang-19 libclang-rt-19-dev
  openssl       # makes certificates
  systemd       # systemd-analyze, for the units
  prometheus    # and promtool, for alerts and dashboard
  docker-compose python3-pip  # check the manifests of containers; pip gets kubernetes-validate
  chromium)     # shows the live page

# For scripts/check.
readonly kCheckPackages=(clang-format-19 clang-tidy-19 shellcheck)
