"""Whether a store that does one thing at a time could have given the answers of a history: Wing & Gong '93, in the just-in-time
form of Lowe '17, as compute/verify/history/linearizable.cc has it, for all that the gateway's commands do.

A history is of one cell: a key, or two keys that commands move values between. An operation takes effect in one step or several
(RENAME is not atomic, and is not promised to be). A configuration is a possible state: what the keys have, and how far the open
operations are. An operation that returns must have come to its end in every configuration that stays, with the reply that it gave.

An operation whose outcome is unknown (its reply is Any) may take its steps at any time until its end, or stop between them.

Rules that keep the number of configurations low:
  - An operation that certainly changed nothing is done as soon as that leaves a configuration as it is.
  - Of two configurations that differ only in operations of unknown outcome, the one with fewer of them done stays.
  - Of two operations of unknown outcome that ask for the same, the one that was called first is done first.
"""

from dataclasses import dataclass

from judge.model import ABSENT, NO_SUCH_KEY, Any, Moment, Slack, changes_nothing, is_refusal, is_reply, run, same_fingerprint, views

DONE = "done"
OUTDATED = b"TRYAGAIN a watched key has changed meanwhile"
MOST_CONFIGURATIONS = 100_000
NEVER = float("inf")


@dataclass
class Operation:
    """`kind`: "run" does `commands` at once, on the key of its cell that `keys` says, if `watch` allows; "part" does the
    commands of each key at once, one key after the other; "watched" does so if `watch` allows; "watch" notes what a key has; others
    are commands of two keys.
    `reply`: that of the only command, or a list of those of EXEC, or Any. `start`, `end`: the store's time in milliseconds."""
    kind: str
    keys: tuple
    commands: tuple
    reply: object
    start: float
    end: float
    client: int = 0
    watch: tuple = ()  # numbers of the "watch" whose keys must not have changed
    behind: object = None  # number of an operation that its client sent before, and that takes effect before
    number: int = 0
    is_idle: bool = False
    may_have_changed: bool = False  # others have written the key since the "watch"
    watched_keys: tuple = ()

    def prepare(self):
        replies = self.replies()
        if self.kind == "move":  # of a key that is absent
            self.is_idle = self.reply is not Any and is_refusal(self.reply, NO_SUCH_KEY)
        elif self.kind in ("run", "part"):
            self.is_idle = replies is None or all(changes_nothing(*one) for one in zip(self.commands, replies))
        else:
            self.is_idle = self.kind == "sum" and self.commands[0][0] == "EXISTS"

    def is_unknown(self):
        return self.reply is Any

    def replies(self):
        """Of each command; None: EXEC refused to do them."""
        if self.reply is Any:
            return [Any] * len(self.commands)
        return self.reply

    def __str__(self):
        def text(word):
            return short(word.decode("latin-1").encode("unicode_escape").decode() if isinstance(word, bytes) else str(word))
        commands = "; ".join(" ".join(map(text, words)) for words in self.commands)
        until = f"{self.end:12.3f}" if self.end != NEVER else "       never"
        reply = "unknown" if self.reply is Any else short(repr(self.reply), 200)
        watch = f" (behind {self.behind})" if self.behind is not None else f" (watch {self.watch})" if self.watch else ""
        return f"{self.start:12.3f} {until}  client {self.client:2} #{self.number}{watch} {self.kind}{self.keys}: {commands} -> {reply}"


def short(text, most=50):
    return text if len(text) <= most else f"{text[:most]}… ({len(text)})"


# ---- Steps: each yields (progress, keys), where the operation is and what the keys have then. DONE: it has ended, as its reply says.

def step_run(one, local, keys, moments, notes):
    at = moments(one)
    index = one.keys[0]
    states = [keys[index]]
    replies = one.replies()
    if one.watch:
        note = notes.get(one.watch[0])
        if note is None:
            return
        states = []
        for state in views(keys[index], at):
            may_be, must_be = same_fingerprint(state, note)
            # Of hashes and sets, WATCH compares the bytes, which depend on how they came to be.
            if replies is None and (not must_be or state.kind in ("hash", "set") and one.may_have_changed):
                yield DONE, replaced(keys, index, state)
            if may_be:
                states.append(state)
    if replies is None:
        return
    done = []
    for state in states:
        for after in run(state, one.commands, replies, at):
            if after not in done:
                done.append(after)
                yield DONE, replaced(keys, index, after)


def step_watch(one, local, keys, moments, notes):
    index = one.keys[0]
    for state in views(keys[index], moments(one)):
        yield ("note", state), replaced(keys, index, state)


def step_part(one, local, keys, moments, notes):
    """The commands of each key at once, in any order of keys."""
    at = moments(one)
    left = frozenset(one.keys) if local is None else local[1]
    for index in left:
        mine = [place for place, key in enumerate(one.keys) if key == index]
        replies = one.replies()
        for after in run(keys[index], [one.commands[place] for place in mine], [replies[place] for place in mine], at):
            rest = left - {index}
            yield ("left", rest) if rest else DONE, replaced(keys, index, after)


def step_watched(one, local, keys, moments, notes):
    """EXEC of several keys, or of one key while another is watched: compares all keys first, and each once more when it is changed."""
    at = moments(one)
    if any(number not in notes for number in one.watch):
        return
    watched = {one.watched_keys[place]: notes[number] for place, number in enumerate(one.watch)}
    phase, left, outdated = local or ("compare", frozenset(watched), 0)
    if phase == "compare":
        index = min(left)
        rest = left - {index}
        for state in views(keys[index], at):
            may_be, must_be = same_fingerprint(state, watched[index])
            following = replaced(keys, index, state)
            if may_be:
                yield ("compare", rest, 0) if rest else ("left", frozenset(one.keys), 0), following
            if not must_be and (one.reply is None or one.reply is Any):
                yield DONE, following
        return
    for index in left:
        mine = [place for place, key in enumerate(one.keys) if key == index]
        replies = None if one.reply is None else [one.replies()[place] for place in mine]
        rest = left - {index}
        for state in views(keys[index], at):
            may_be, must_be = same_fingerprint(state, watched[index]) if index in watched else (True, True)
            if not must_be and (replies is None or all(is_refusal(reply, OUTDATED) for reply in replies)):
                if rest:
                    yield ("left", rest, outdated + 1), replaced(keys, index, state)
                elif (one.reply is None) == (outdated + 1 == len(set(one.keys))) or one.reply is Any:
                    yield DONE, replaced(keys, index, state)
            if may_be and replies is not None:
                for after in run(state, [one.commands[place] for place in mine], replies, at):
                    yield ("left", rest, outdated) if rest else DONE, replaced(keys, index, after)


def step_sum(one, local, keys, moments, notes):
    """DEL and EXISTS of several keys: the reply is how many there were."""
    at = moments(one)
    left, count = (frozenset(one.keys), 0) if local is None else local[1:]
    for index in left:
        for state in views(keys[index], at):
            rest, sum = left - {index}, count + (1 if state.kind else 0)
            after = state if one.commands[0][0] == "EXISTS" else ABSENT
            if rest:
                yield ("left", rest, sum), replaced(keys, index, after)
            elif is_reply(one.reply, sum):
                yield DONE, replaced(keys, index, after)


def step_move(one, local, keys, moments, notes):
    """RENAME, RENAMENX and COPY as docs/redis.md has them: read, write the other key, delete the first one if it is still the same."""
    at = moments(one)
    name, reply = one.commands[0][0], one.reply
    source, target = one.keys
    phase, copied = local or ("read", None)
    if phase == "read":
        for state in views(keys[source], at):
            following = replaced(keys, source, state)
            if state.kind:
                if not one.is_idle:
                    yield ("put", (state, copied)), following
            elif copied is not None:  # somebody else has deleted it
                if is_reply(reply, b"OK" if name == "RENAME" else 1):
                    yield DONE, following
            elif is_reply(reply, 0) if name == "COPY" else is_refusal(reply, NO_SUCH_KEY):
                yield DONE, following
    elif phase == "put":
        value, before = copied
        must_be_absent = name == "RENAMENX" or name == "COPY" and "REPLACE" not in one.commands[0]
        for state in views(keys[target], at):
            may_put, must_put = True, True
            if must_be_absent and state.kind:
                may_put, must_put = same_fingerprint(state, before) if before is not None else (False, False)
            if may_put and (reply is Any or reply != 0):
                following = replaced(keys, target, value)
                if name == "COPY":
                    if is_reply(reply, 1):
                        yield DONE, following
                else:
                    yield ("delete", value), following
            if not must_put and is_reply(reply, 0 if before is None else 1):
                yield DONE, replaced(keys, target, state)
    else:
        for state in views(keys[source], at):
            may_be, must_be = same_fingerprint(state, copied)
            if may_be and is_reply(reply, b"OK" if name == "RENAME" else 1):
                yield DONE, replaced(keys, source, ABSENT)
            if not must_be:
                yield ("read", copied), replaced(keys, source, state)


def step_set_all(one, local, keys, moments, notes):
    """MSETNX: looks at all keys, sets each that is absent still, and takes those back if one was not."""
    at = moments(one)
    values = dict(zip(one.keys, one.commands[0][2::2]))
    phase, left, held = local or ("look", frozenset(one.keys), frozenset())
    for index in left:
        rest = left - {index}
        for state in views(keys[index], at):
            following = replaced(keys, index, state)
            if phase == "look":
                # Another key may be looked at first, which makes no difference to this end.
                if state.kind:
                    if is_reply(one.reply, 0):
                        yield DONE, following
                else:
                    yield (("look", rest, held) if rest else ("put", frozenset(one.keys), frozenset())), following
                continue
            own = ("string", values[index], None)
            if phase == "put":
                if not state.kind:
                    following, now_held = replaced(keys, index, ABSENT._replace(kind="string", value=values[index])), held | {index}
                else:
                    now_held = held
                if rest:
                    yield ("put", rest, now_held), following
                elif len(now_held) == len(one.keys):
                    if is_reply(one.reply, 1):
                        yield DONE, following
                elif now_held:
                    yield ("back", now_held, frozenset()), following
                elif is_reply(one.reply, 0):
                    yield DONE, following
            else:
                if tuple(state) == own:
                    following = replaced(keys, index, ABSENT)
                if rest:
                    yield ("back", rest, frozenset()), following
                elif is_reply(one.reply, 0):
                    yield DONE, following


def replaced(keys, index, key):
    return keys if keys[index] == key else keys[:index] + (key,) + keys[index + 1:]


STEPS = {"run": step_run, "watch": step_watch, "part": step_part, "watched": step_watched, "sum": step_sum, "move": step_move, "set_all": step_set_all}


# ---- The search

class Undecided(Exception):
    """Too many configurations."""


class Search:
    def __init__(self, operations, keys, slack):
        self.operations = operations
        for number, one in enumerate(operations):
            one.number = number
            one.prepare()
        for one in operations:
            one.watched_keys = tuple(operations[number].keys[0] for number in one.watch)
            if one.watch:
                begin = operations[one.watch[0]].start
                one.may_have_changed = any(not other.is_idle and other.start <= one.end and other.end >= begin and other is not one and
                                           other.kind != "watch" for other in operations)
        self.watched = {number for one in operations for number in one.watch}
        self.slack = slack
        self.unknown = frozenset(one.number for one in operations if one.is_unknown())
        self.open = {}
        self.configurations = {((ABSENT,) * keys, frozenset())}
        self.before = self.configurations  # those before the return that none explains
        self.most = 1

    def judge(self):
        """Returns the operation whose return no configuration explains, or None."""
        moments = []
        for one in self.operations:
            if one.is_unknown() and one.is_idle:
                continue
            moments.append((one.start, 0, one.number))
            if one.end != NEVER:
                moments.append((one.end, 1, one.number))
        moments.sort()
        for time, is_return, number in moments:
            one = self.operations[number]
            if not is_return:
                self.open[number] = one
                continue
            self.now = time
            following = self.through(one)
            if not following:
                self.before = self.configurations
                return one
            del self.open[number]
            self.configurations = following
            self.most = max(self.most, len(following))
        return None

    def moment(self, one):
        return Moment(one.start, self.now, self.slack, one.number)

    def through(self, returned):
        """The configurations in which `returned` has ended. One of unknown outcome ends wherever it is."""
        found = set()
        if returned.is_unknown():
            found = {(keys, self.without_ended(progress, returned)) for keys, progress in self.configurations}
        seen = set()
        waiting = list(self.configurations)
        while waiting:
            keys, progress = waiting.pop()
            keys, progress = self.without_idle(keys, progress)
            configuration = (keys, progress)
            if configuration in seen:
                continue
            seen.add(configuration)
            if len(seen) > MOST_CONFIGURATIONS:
                raise Undecided()
            state = dict(progress)
            local = state.get(returned.number)
            if has_ended(local):
                found.add((keys, self.without_ended(progress, returned)))
                continue
            if local is not None and returned.is_unknown():
                found.add((keys, self.without_ended(progress, returned)))
            waiting.extend(self.next_of(keys, progress, state))
        return self.pruned(found)

    def next_of(self, keys, progress, state):
        tried = set()
        notes = {number: local[1] for number, local in progress if local[0] == "note"}
        for number, one in self.open.items():
            local = state.get(number)
            if has_ended(local) or self.has_to_wait(one, state):
                continue
            if one.is_unknown() and local is None:
                alike = (one.kind, one.keys, one.commands, one.watch)
                if alike in tried:
                    continue
                tried.add(alike)
            for now_local, now_keys in STEPS[one.kind](one, local, keys, self.moment, notes):
                rest = progress if local is None else progress - {(number, local)}
                yield now_keys, rest | {(number, now_local)}

    def has_to_wait(self, one, state):
        return one.behind is not None and one.behind in self.open and not has_ended(state.get(one.behind))

    def without_idle(self, keys, progress):
        """Ends the open operations that certainly change nothing, where that leaves the keys as they are known."""
        state = None
        for number, one in self.open.items():
            if not one.is_idle or one.is_unknown():
                continue
            if state is None:
                state = dict(progress)
                notes = {watch: local[1] for watch, local in progress if local[0] == "note"}
            if state.get(number) is DONE or self.has_to_wait(one, state):
                continue
            for local, now_keys in STEPS[one.kind](one, state.get(number), keys, self.moment, notes):
                if local is DONE and now_keys == keys:
                    progress -= {(number, state.get(number))}
                    state[number] = DONE
                    progress = progress | {(number, DONE)}
                    break
        return keys, progress

    def without_ended(self, progress, returned):
        """A note stays until the EXEC that it is for has ended."""
        gone = {returned.number} if returned.kind != "watch" or returned.number not in self.watched else set()
        gone.update(returned.watch)
        return frozenset(one for one in progress if one[0] not in gone)

    def pruned(self, configurations):
        """Without those that another one covers: the same, with fewer operations of unknown outcome done, and times known less exactly."""
        if len(configurations) == 1:
            return configurations
        groups = {}
        for configuration in configurations:
            keys, progress = configuration
            done = frozenset(number for number, local in progress if local is DONE and number in self.unknown)
            rest = frozenset(one for one in progress if one[0] not in done) if done else progress
            alike = tuple((key.kind, key.value, key.time and key.time.token) for key in keys)
            times = tuple(key.time for key in keys if key.time)
            groups.setdefault((alike, rest), []).append((done, times, configuration))
        kept = set()
        for group in groups.values():
            group.sort(key=lambda one: (len(one[0]), -sum(time.high - time.low for time in one[1])))
            least = []
            for done, times, configuration in group:
                if not any(other <= done and all(map(covers, wider, times)) for other, wider in least):
                    least.append((done, times))
                    kept.add(configuration)
        return kept


def has_ended(local):
    return local is DONE or (local is not None and local[0] == "note")


def covers(one, other):
    return one.low <= other.low and other.high <= one.high


@dataclass
class Verdict:
    problem: str = ""
    undecided: bool = False
    most: int = 1


def judge(operations, keys=1, slack=Slack()):
    """What is wrong with the history of a cell of so many keys, with the operations that show it."""
    operations = sorted(operations, key=lambda one: one.start)
    search = Search(renumbered(operations), keys, slack)
    try:
        wrong = search.judge()
    except Undecided:
        return Verdict(undecided=True, most=MOST_CONFIGURATIONS)
    if wrong is None:
        return Verdict(most=search.most)
    return Verdict(problem=report(search, wrong, keys, slack), most=search.most)


def rebased(one, begin):
    """The commands and the reply, with dates counted from `begin`."""
    def moved(words):
        words = list(words)
        for place in range(2, len(words)):
            if words[place - 1] == "PXAT" or words[0] == "PEXPIREAT" and place == 2:
                words[place] = str(int(words[place]) - begin)
        return tuple(words)
    commands = tuple(map(moved, one.commands))
    if one.kind not in ("run", "part", "watched") or not isinstance(one.reply, list):
        return commands, one.reply
    return commands, [seen - begin if words[0] == "PEXPIRETIME" and isinstance(seen, int) and seen > 0 else seen
                      for words, seen in zip(commands, one.reply)]


def renumbered(operations):
    """With `watch` and `behind` as places in the list: they may be the operations themselves."""
    places = {id(one): place for place, one in enumerate(operations)}
    for one in operations:
        one.watch = tuple(places[id(other)] if isinstance(other, Operation) else other for other in one.watch)
        if isinstance(one.behind, Operation):
            one.behind = places[id(one.behind)]
    return operations


def report(search, wrong, keys, slack):
    lines = [f"no order of the operations explains this answer:\n  {wrong}", "possible before it returned:"]
    for states, progress in list(search.before)[:6]:
        done = sorted(number for number, local in progress if local is DONE)
        lines.append("  " + " | ".join(map(text_of, states)) + (f", done: {done}" if done else ""))
    lines.append("open with it:")
    lines += [f"  {one}" for one in search.open.values() if one is not wrong]
    lines.append("the operations that are enough to be wrong:")
    lines += [f"  {one}" for one in least_history(search.operations, wrong, keys, slack)]
    return "\n".join(lines)


def text_of(key):
    if not key.kind:
        return "absent"
    value = short(str(key.value if isinstance(key.value, bytes) else sorted(key.value)), 200)
    return f"{key.kind} {value}" + (f", expires in [{key.time.low:.3f}, {key.time.high:.3f}]" if key.time else "")


def least_history(operations, wrong, keys, slack):
    """Leaves out what is not needed: those that ended behind the wrong one, and reads. What was written stays."""
    def is_wrong(chosen):
        copies = {one.number: Operation(one.kind, one.keys, one.commands, one.reply, one.start, one.end, one.client) for one in chosen}
        for one in chosen:
            copies[one.number].behind = copies.get(one.behind)
            copies[one.number].watch = tuple(map(copies.get, one.watch))
            if None in copies[one.number].watch:
                return False
        try:
            return Search(renumbered(list(copies.values())), keys, slack).judge() is not None
        except Undecided:
            return False
    left = [one for one in operations if one.start <= wrong.end]
    removable = [one for one in left if one is not wrong and (one.is_idle or one.kind == "watch") and not one.is_unknown()]
    size = max(1, len(removable) // 2)
    budget = 150
    while removable and budget:
        for first in range(0, len(removable), size):
            part = {id(one) for one in removable[first:first + size]}
            fewer = [one for one in left if id(one) not in part]
            budget -= 1
            if is_wrong(fewer):
                left = fewer
            if not budget:
                break
        removable = [one for one in removable if any(one is other for other in left)]
        if size == 1:
            break
        size //= 2
    return left[-40:]
