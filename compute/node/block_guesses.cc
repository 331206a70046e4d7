#include "compute/node/block_guesses.h"

#include "compute/rules/rules.h"

namespace gossamer {

GuessedBlock BlockGuesses::For(uint64_t hash, ServerId server) {
  const std::optional<BlockRef> found = references_.Find(hash);
  // On another server it would need a batch of its own.
  if (!found || found->ptr().server() != server || !tuner_.MayRead()) return {};
  return blocks_.Reaches(*found) ? GuessedBlock{*found} : GuessedBlock{};
}

std::optional<std::string_view> BlockGuesses::Judge(uint64_t hash, const GuessedBlock& guess,
                                                    const BlockRef* block) {
  const bool is_right =
      block != nullptr && block->pointer == guess.at.pointer && block->length == guess.at.length;
  tuner_.Note(is_right);
  ++counts_.along;
  if (is_right) ++counts_.along_right;
  if (block == nullptr) references_.Erase(hash);
  if (block == nullptr || guess.read->status != VerbStatus::kSuccess) return std::nullopt;
  return rules::ParseAlong(*block, guess.at, {guess.read->local.data, guess.read->length});
}

}  // namespace gossamer
