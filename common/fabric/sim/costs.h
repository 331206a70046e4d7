// What the simulated network costs in time: the one file of parameters.
//
// The model is a chain. A batch leaves the compute server's NIC (one message each `nic_message_ns`,
// bytes at `wire_bytes_per_us`), flies `one_way_ns`, queues for the memory server's NIC (likewise),
// takes effect there, and its answer flies back. DRAM behind that NIC is a PCIe round trip away for
// a READ, half of one for a WRITE. Atomics of one memory server that fall into one of `atomic_slots`
// slots (by address) run one after the other, whether they succeed or not, each for as long as it
// holds its word: who spins delays the release that he waits for. A responder works in order: what
// stands behind an atomic of its queue pair waits for it; other queue pairs do not.
//
// The figures are of ConnectX-5/6 class NICs at 100 Gbit/s, rounded. Where each comes from:
//
//   [perftest]  ib_read_lat, ib_write_lat, ib_atomic_lat and ib_atomic_bw between two pairs of
//               machines with mlx5 NICs (RoCE, 100 Gbit/s), in somebody's published notes: READ
//               1.48 and 2.42 us, WRITE one way 0.78 and 1.28 us, fetch-add on DRAM 1.46 and 2.15
//               us, 2.13 and 1.41 M/s of them on one queue pair; 11,660 MB/s of WRITEs.
//   [cx6]       a comment in somebody's published benchmark of two ConnectX-6, of many threads: CAS
//               on one word 2.04 M/s in DRAM, 8.65 M/s in device memory; 64 B to and from DRAM
//               65.0 M/s of READs, 106.3 M/s of WRITEs.
//   [atomics]   efficient/rdma_bench (of Kalia et al., ATC'16), atomics-sequencer/main.h: a
//               ConnectX-3 does 2.7 M/s atomics, 1.8 M/s where the memory exceeds the CPU's cache.
//   [pcie]      pcie-bench/data (of Neugebauer et al., SIGCOMM'18), LAT_DMA_RD and LAT_DMA_WRRD of an
//               NFP-6000 in a Xeon E5-2630v4: 64 B read 546 ns, written and then read 773 ns (medians).
//
// The first two were found by full-text search, which did not tell the repository. The papers
// themselves were not at hand: what is said to be from one is from memory, and so an assumption.
#pragma once

#include <cstdint>

namespace gossamer {

// The default decides the order of events wherever a seed is recorded (docs/testing.md,
// regressions.txt): a figure that changes makes other runs of them.
struct SimCosts {
  // Cable and switch, and both NICs' pipelines, one way: with the rest, a small READ takes 1.94 us,
  // and a WRITE is there after 0.98 us, in the middle of [perftest].
  uint32_t one_way_ns = 750;
  // 100 Gbit/s = 12.5 GB/s, each direction of each NIC [perftest]; headers do not count.
  uint32_t wire_bytes_per_us = 12'500;
  // Requests that one NIC takes in, or sends: 77 M/s, between READs and WRITEs of [cx6].
  uint32_t nic_message_ns = 13;
  // A DMA read crosses PCIe twice, a posted DMA write once. [pcie] has 546 and 227 ns with a DMA
  // engine slower than a NIC's; less fits [perftest] better.
  uint32_t pcie_read_ns = 400;
  uint32_t pcie_write_ns = 200;
  // An atomic on DRAM holds its slot for a DMA read and a DMA write: 2.5 M/s on one word, [atomics]
  // rounded.
  uint32_t dram_atomic_ns = 400;
  // In the NIC's own memory no PCIe is crossed. 110 M/s in all (Sherman, SIGMOD'22: an assumption).
  uint32_t on_chip_atomic_ns = 9;
  // Slots by the low 12 bits of the address (Kalia, ATC'16: an assumption, for device memory too).
  uint32_t atomic_slots = 4096 / 8;
  // What a compute server's thread takes for each completion, and for each time it is woken: to poll,
  // to go on with an operation and to post what comes next. An assumption: a get takes 500 ns of a
  // core over shm (docs/performance.md), which includes moving its bytes.
  uint32_t completion_cpu_ns = 250;
  // Whether what a thread posts leaves when it has spent that, or at once.
  bool posts_take_cpu = false;
  // A memory server's control thread for one call: a wakened thread, a lock, a SEND. An assumption.
  uint32_t control_call_ns = 2'000;
};

// For measuring what a design is worth, where the order of events is not enough.
constexpr SimCosts MeasuredSimCosts() {
  SimCosts costs;
  // CAS on one word [cx6]: 2.04 and 8.65 M/s. (The 9 ns above are those of a NIC whose atomics are
  // all on different words.)
  costs.dram_atomic_ns = 490;
  costs.on_chip_atomic_ns = 115;
  costs.posts_take_cpu = true;
  return costs;
}

}  // namespace gossamer
