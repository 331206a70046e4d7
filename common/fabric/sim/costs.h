// The time parameters of the simulated network, all in this file.
//
// The model is a chain. A batch leaves the compute server's NIC (one message per `nic_message_ns`,
// bytes at `wire_bytes_per_us`), flies `one_way_ns`, queues for the memory server's NIC (likewise),
// takes effect there, and its answer flies back. DRAM is a PCIe round trip behind that NIC for a
// READ, half of one for a WRITE. Atomics of one memory server in the same one of `atomic_slots`
// slots (by address) run one after the other, whether they succeed or not, each for as long as it
// holds its word: spinning delays the release of the lock. A responder works in order: a verb
// behind an atomic waits for it on the same queue pair, not on others.
//
// The figures are rounded ones of ConnectX-5/6 class NICs at 100 Gbit/s. Sources:
//
//   [perftest]  ib_read_lat, ib_write_lat, ib_atomic_lat and ib_atomic_bw between two pairs of
//               machines with mlx5 NICs (RoCE, 100 Gbit/s), in published notes: READ 1.48 and
//               2.42 us, WRITE one way 0.78 and 1.28 us, fetch-add on DRAM 1.46 and 2.15 us, 2.13
//               and 1.41 M/s of them on one queue pair; 11,660 MB/s of WRITEs.
//   [cx6]       a comment in a published benchmark of two ConnectX-6, of many threads: CAS on one
//               word 2.04 M/s in DRAM, 8.65 M/s in device memory; 64 B to and from DRAM 65.0 M/s of
//               READs, 106.3 M/s of WRITEs.
//   [atomics]   efficient/rdma_bench (of Kalia et al., ATC'16), atomics-sequencer/main.h: a
//               ConnectX-3 does 2.7 M/s atomics, 1.8 M/s if the memory exceeds the CPU's cache.
//   [pcie]      pcie-bench/data (of Neugebauer et al., SIGCOMM'18), LAT_DMA_RD and LAT_DMA_WRRD of
//               an NFP-6000 in a Xeon E5-2630v4: 64 B read 546 ns, written and then read 773 ns
//               (medians).
//
// A full-text search found the first two without naming the repository. Claims about papers are
// from memory, and so assumptions.
#pragma once

#include <cstdint>

namespace gossamer {

// These defaults decide the order of events of every recorded seed (docs/testing.md,
// regressions.txt): changing a figure changes those runs.
struct SimCosts {
  // Cable, switch and both NICs' pipelines, one way. In total a small READ takes 1.94 us and a
  // WRITE arrives after 0.98 us, in the middle of [perftest].
  uint32_t one_way_ns = 750;
  // 100 Gbit/s = 12.5 GB/s, each direction of each NIC [perftest]; headers do not count.
  uint32_t wire_bytes_per_us = 12'500;
  // Per request received or sent by one NIC: 77 M/s, between READs and WRITEs of [cx6].
  uint32_t nic_message_ns = 13;
  // A DMA read crosses PCIe twice, a posted DMA write once. [pcie] has 546 and 227 ns with a DMA
  // engine slower than a NIC's; smaller values fit [perftest] better.
  uint32_t pcie_read_ns = 400;
  uint32_t pcie_write_ns = 200;
  // An atomic on DRAM holds its slot for a DMA read and a DMA write: 2.5 M/s on one word, [atomics]
  // rounded.
  uint32_t dram_atomic_ns = 400;
  // In the NIC's own memory, without PCIe. 110 M/s in total (Sherman, SIGMOD'22: an assumption).
  uint32_t on_chip_atomic_ns = 9;
  // Slots by the low 12 bits of the address (Kalia, ATC'16: an assumption, for device memory too).
  uint32_t atomic_slots = 4096 / 8;
  // A compute server's thread, per completion and per wake-up: poll, continue an operation and
  // post. An
  // assumption: a get takes 500 ns of a core over shm (docs/performance.md), including the copy of
  // its bytes.
  uint32_t completion_cpu_ns = 250;
  // true: a thread's posts leave after it has spent that time; false: at once.
  bool posts_take_cpu = false;
  // A memory server's control thread, per call: a thread wake-up, a lock, a SEND. An assumption.
  uint32_t control_call_ns = 2'000;
};

// For measurements, where the order of events is not enough.
constexpr SimCosts MeasuredSimCosts() {
  SimCosts costs;
  // CAS on one word [cx6]: 2.04 and 8.65 M/s. (The 9 ns above are of a NIC whose atomics are all on
  // different words.)
  costs.dram_atomic_ns = 490;
  costs.on_chip_atomic_ns = 115;
  costs.posts_take_cpu = true;
  return costs;
}

}  // namespace gossamer
