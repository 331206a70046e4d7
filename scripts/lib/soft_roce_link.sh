# The network on which SoftRoCE runs: one pair of virtual Ethernet interfaces and one rxe device on
# the first of them. To be sourced by bash; used natively (scripts/soft_roce) and in the guest
# (scripts/lib/soft_roce_init), so that both offer the same device.
#
# Server and client both use the device's own address: rxe delivers what is addressed to itself
# without sending it. Between two rxe devices of one network namespace it would not work, as the
# kernel then routes the packets over `lo`, where no rxe device listens.

# shellcheck disable=SC2034  # for the scripts that source this
readonly kSoftRoceAddress=192.0.2.1      # TEST-NET-1: never routed on the Internet
readonly kSoftRocePeerAddress=192.0.2.2  # the other end, for plain IP peers

# make_soft_roce_link DEVICE INTERFACE PEER_INTERFACE, in the current network namespace. Stops at
# the first step that fails, whether or not the caller has set -e.
make_soft_roce_link() {
  local device=$1 interface=$2 peer=$3
  ip link set lo up &&
    ip link add "$interface" type veth peer name "$peer" &&
    ip address add "$kSoftRoceAddress/24" dev "$interface" &&
    ip address add "$kSoftRocePeerAddress/24" dev "$peer" &&
    ip link set "$interface" up &&
    ip link set "$peer" up &&
    rdma link add "$device" type rxe netdev "$interface"
}

# The address of the first or the second of two machines with a cable between them.
machine_address() { echo "192.0.2.$1"; }

# make_soft_roce_cable DEVICE INTERFACE MACHINE: likewise, on an interface that is there.
make_soft_roce_cable() {
  local device=$1 interface=$2 machine=$3
  ip link set lo up &&
    ip address add "$(machine_address "$machine")/24" dev "$interface" &&
    ip link set "$interface" up &&
    rdma link add "$device" type rxe netdev "$interface"
}

# remove_soft_roce_link DEVICE INTERFACE: removes whatever of the link is there.
remove_soft_roce_link() {
  local device=$1 interface=$2
  rdma link delete "$device" 2>/dev/null || true
  ip link delete "$interface" 2>/dev/null || true
}
