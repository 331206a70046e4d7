# Which Debian packages are needed for what. To be sourced by bash scripts, beside packages.sh.

# shellcheck shell=bash disable=SC2034  # for the scripts that source this

# To build the programs.
readonly kBuildPackages=(
  g++ cmake ninja-build pkg-config ccache mold git ca-certificates
  libibverbs-dev librdmacm-dev libfmt-dev libgflags-dev libhwy-dev libgoogle-glog-dev
  libmemcached-dev libsasl2-dev libssl-dev  # its pkg-config file asks for the other two; TLS is of the last one
  libboost-dev nlohmann-json3-dev libedit-dev
  prometheus-cpp-dev  # for the admin endpoint: its core library
  libabsl-dev)  # absl::btree_map, for gossamer-lab

# To run them. memcached and the RDMA providers are needed where a store spans machines.
readonly kRunPackages=(memcached ibverbs-providers wamerican)

# To make Debian packages of them, and to check those: scripts/package.
readonly kPackagingPackages=(dpkg-dev lintian)

# To build and run the tests.
readonly kTestPackages=(
  "${kPackagingPackages[@]}"
  libgtest-dev libgmock-dev python3 clang-19 libclang-rt-19-dev
  openssl       # makes certificates
  redis-tools)  # redis-cli, redis-benchmark, and as redis-check-rdb the server

# For scripts/check.
readonly kCheckPackages=(clang-format-19 clang-tidy-19 shellcheck)
