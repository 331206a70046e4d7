// What the simulated network costs in time: the one file of parameters.
//
// The model is a chain. A batch leaves the compute server's NIC (one message each `nic_message_ns`,
// bytes at `wire_bytes_per_us`), flies `one_way_ns`, queues for the memory server's NIC (likewise),
// takes effect there, and its answer flies back. DRAM behind that NIC is a PCIe round trip away for
// a READ, half of one for a WRITE. Atomics of one memory server that fall into one of `atomic_slots`
// slots (by address) run one after the other, each for as long as it holds its word. All constants
// are of ConnectX-5/6 class NICs at 100 Gbit/s, rounded. The papers named beside them were not at
// hand when this was written: check a figure there before citing it.
#pragma once

#include <cstdint>

namespace gossamer {

struct SimCosts {
  // Cable and switch, and both NICs' pipelines, one way. Small READs take about 2 us in all within a
  // rack (Kalia, ATC'16; Wang, SIGMOD'22 "Sherman": "about 2 us"): 2 * 750 + 400 ns of PCIe.
  uint32_t one_way_ns = 750;
  // 100 Gbit/s = 12.5 GB/s, each direction of each NIC.
  uint32_t wire_bytes_per_us = 12'500;
  // Requests that one NIC takes in, or sends: about 75 M/s inbound small verbs of a ConnectX-5
  // (Ziegler, SIGMOD'23 "Guidelines", who see 60-80 M/s of one-sided READs).
  uint32_t nic_message_ns = 13;
  // A DMA read crosses PCIe twice, a posted DMA write once: 300-500 ns a round trip (Neugebauer,
  // SIGCOMM'18 "Understanding PCIe performance").
  uint32_t pcie_read_ns = 400;
  uint32_t pcie_write_ns = 200;
  // An atomic on DRAM holds its slot for a DMA read and a DMA write: about 2.5 M/s on one word
  // (Kalia, ATC'16: 2.2-2.7 M/s contended).
  uint32_t dram_atomic_ns = 400;
  // In the NIC's own memory no PCIe is crossed: 110 M/s (Sherman, section 4.2).
  uint32_t on_chip_atomic_ns = 9;
  // Slots by the low 12 bits of the address (Sherman, section 3.2.2; Kalia, ATC'16).
  uint32_t atomic_slots = 4096 / 8;
  // What a compute server's thread takes for each completion, and for each time it is woken: to poll,
  // to go on with an operation and to post what comes next. A get takes 500 ns of a core over shm
  // (docs/performance.md), which includes moving its bytes.
  uint32_t completion_cpu_ns = 250;
  // A memory server's control thread for one call: a wakened thread, a lock, a SEND. An assumption.
  uint32_t control_call_ns = 2'000;
};

}  // namespace gossamer
