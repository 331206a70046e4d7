// Polls /state, keeps two minutes of it, and draws what it has. A field that is missing leaves out its part.

const kWindow = 3;  // seconds over which rates and percentiles are taken
const kClasses = [['read', 'blue'], ['update', 'orange'], ['insert', 'green'], ['insert_split', 'yellow'],
                  ['delete', 'red'], ['scan', 'violet'], ['merge', 'grey']];
const kPercentiles = [['p50', 0.5, 'green'], ['p99', 0.99, 'orange'], ['p99.9', 0.999, 'red']];
const kMemory = [['live nodes', 'live_bytes', 'blue'], ['nodes', 'node_bytes', 'blue'], ['values', 'block_bytes', 'green'],
                 ['waiting', 'waiting_bytes', 'yellow'], ['orphaned', 'orphaned_bytes', 'red']];

const byId = (id) => document.getElementById(id);
let samples = [];  // states, the oldest first; each has its time in seconds

// The state to compare `index` with, or nothing.
function before(index) {
  const limit = samples[index].time - kWindow - 0.5;
  let at = index;
  while (at > 0 && samples[at - 1].time >= limit) --at;
  return at < index ? samples[at] : undefined;
}
// The growth a second of what `pick` picks.
function rate(index, pick) {
  const from = before(index), to = samples[index];
  if (!from) return null;
  const growth = pick(to) - pick(from);
  return isNumber(growth) ? Math.max(0, growth) / (to.time - from.time) : null;
}
function ratio(part, whole) {
  return isNumber(part) && whole > 0 ? part / whole : null;
}
// A line of `at(index)` over all samples.
function line(name, color, at) {
  const now = samples.at(-1).time;
  return {name, color, values: samples.map((sample, index) => [now - sample.time, at(index)])};
}

const operations = (name) => (state) => state.operations?.[name]?.operations;
const allOf = (field) => (state) => state.operations &&
    Object.values(state.operations).reduce((sum, wire) => sum + (wire[field] ?? 0), 0);
const hits = (state) => state.cache?.hits;
const lookups = (state) => state.cache?.hits + state.cache?.misses;
const locks = (field) => (state) => state.locks?.[field];
const hitRate = (index) => ratio(rate(index, hits), rate(index, lookups));
// Tries refused for each lock taken.
const contention = (index) => ratio(rate(index, locks('remote_retries')), rate(index, locks('acquired')));
const tripsOf = (name) => (index) =>
    ratio(rate(index, (state) => state.operations?.[name]?.round_trips), rate(index, operations(name)));

// Latencies of the window as [upper bound, count], ascending; of one command, or of all.
function recentLatencies(index, command) {
  const from = before(index);
  const sums = new Map();
  const add = (state, sign) => {
    for (const [name, figures] of Object.entries(state?.commands ?? {})) {
      if (command && name !== command) continue;
      for (const [upper, times] of figures.latency_buckets_ns ?? []) {
        sums.set(upper, (sums.get(upper) ?? 0) + sign * times);
      }
    }
  };
  if (!from) return [];
  add(samples[index], 1);
  add(from, -1);
  return [...sums].filter(([, times]) => times > 0).sort(([a], [b]) => a - b);
}
function percentile(buckets, share) {
  let left = buckets.reduce((sum, [, times]) => sum + times, 0) * share;
  for (const [upper, times] of buckets) {
    left -= times;
    if (left <= 1e-9) return upper;
  }
  return null;
}

const charts = {
  throughput: new LineChart(byId('charts'), {title: 'Throughput', unit: 'operations a second', format: count}),
  latency: new LineChart(byId('charts'), {title: 'Latency', unit: 'of commands, log scale', format: duration, isLog: true}),
  trips: new LineChart(byId('charts'), {title: 'Round trips', unit: 'an operation', format: plain}),
  cache: new LineChart(byId('charts'), {title: 'Cache hit rate', unit: 'of lookups', format: percent, top: 1}),
  locks: new LineChart(byId('charts'), {title: 'Locks', unit: 'a second', format: count}),
  network: new LineChart(byId('charts'), {title: 'RDMA traffic', unit: 'bytes a second', format: bytes, isBinary: true}),
};

function drawCharts() {
  const present = kClasses.filter(([name]) => operations(name)(samples.at(-1)) > 0);
  charts.throughput.show(present.map(([name, color]) => line(name, color, (index) => rate(index, operations(name)))));
  const latencies = samples.map((_, index) => latencyCache(index));
  charts.latency.show(kPercentiles.map(([name,, color], which) => line(name, color, (index) => latencies[index][which])));
  charts.trips.show(present.filter(([name]) => name !== 'merge').map(([name, color]) => line(name, color, tripsOf(name))));
  charts.cache.show([line('hits', 'blue', hitRate)]);
  charts.locks.show([['acquired', 'acquired', 'blue'], ['handed over', 'handed_over', 'green'],
                     ['combined', 'combined', 'violet'], ['retries', 'remote_retries', 'red']]
      .map(([name, field, color]) => line(name, color, (index) => rate(index, locks(field)))));
  charts.network.show([['read', 'bytes_read', 'blue'], ['written', 'bytes_written', 'orange']]
      .map(([name, field, color]) => line(name, color, (index) => rate(index, allOf(field)))));
}
// Percentiles of a sample do not change: they are computed once.
function latencyCache(index) {
  const sample = samples[index];
  if (!sample.percentiles) {
    const buckets = recentLatencies(index);
    sample.percentiles = kPercentiles.map(([, share]) => percentile(buckets, share));
  }
  return sample.percentiles;
}

function drawTiles() {
  const now = samples.length - 1, state = samples[now];
  const total = rate(now, allOf('operations')), heap = sumOf(state.servers ?? [], 'heap_bytes');
  const tiles = [
    ['Operations', state.operations && count(total), '/s'],
    ['Latency p99', state.commands && duration(latencyCache(now)[1]), ''],
    ['Round trips', state.operations && plain(ratio(rate(now, allOf('round_trips')), total)), 'each'],
    ['Cache hit rate', state.cache && percent(hitRate(now)), ''],
    ['Lock retries', state.locks && plain(contention(now)), 'a lock'],
    ['Locks handed over', state.locks && percent(ratio(rate(now, locks('handed_over')), rate(now, locks('acquired')))), ''],
    ['Clients', state.clients && count(state.clients.connected), ''],
    ['Memory used', heap > 0 && percent(1 - sumOf(state.servers, 'free_bytes') / heap), ''],
    ['Compute servers', !state.clients && state.leases && count(state.leases.length), ''],
  ];
  byId('tiles').replaceChildren(...tiles.filter(([, value]) => value).map(([label, value, unit]) =>
      make('div', {class: 'tile'}, make('div', {class: 'label'}, label), withUnit(value, unit))));
}
// "1.23 k" with a small "k".
function withUnit(value, unit) {
  const [number, ...rest] = value.split(' ');
  const separator = unit === '/s' ? '' : ' ';
  return make('div', {class: 'value'}, number, make('small', {}, [...rest, unit].filter(Boolean).join(separator)));
}
const sumOf = (list, field) => list.reduce((sum, item) => sum + (item[field] ?? 0), 0);

function card(title, unit, ...content) {
  return make('div', {class: 'card'},
      make('div', {class: 'top'}, make('h2', {}, title), make('span', {class: 'unit'}, unit)), ...content);
}
// `columns`: [title, class]; `rows`: arrays of strings or elements.
function table(columns, rows) {
  const cell = (tag) => (content, index) => make(tag, {class: columns[index][1] ?? ''}, content);
  return make('div', {class: 'scroll'}, make('table', {},
      make('thead', {}, make('tr', {}, ...columns.map(([title], index) => cell('th')(title, index)))),
      make('tbody', {}, ...rows.map((row) => make('tr', {}, ...row.map(cell('td')))))));
}

function operationsCard(state) {
  if (!state.operations) return [];
  const now = samples.length - 1;
  const each = (name, field) => ratio(rate(now, (at) => at.operations?.[name]?.[field]), rate(now, operations(name)));
  const rows = kClasses.filter(([name]) => operations(name)(state) > 0).map(([name, color]) => [
    make('span', {}, swatch(`var(--c-${color})`), name), count(operations(name)(state)), count(rate(now, operations(name))),
    plain(each(name, 'round_trips')), plain(each(name, 'reads')), plain(each(name, 'writes')), plain(each(name, 'atomics')),
    bytes(each(name, 'bytes_read')), bytes(each(name, 'bytes_written'))]);
  if (rows.length === 0) return [];
  return [card('Operations', 'averages an operation', table([['class'], ['total'], ['per second'], ['round trips'],
      ['READs'], ['WRITEs'], ['atomics'], ['read'], ['written']], rows))];
}

function commandsCard(state) {
  const now = samples.length - 1;
  const rows = Object.entries(state.commands ?? {}).filter(([, figures]) => figures.count > 0).map(([name, figures]) => {
    const buckets = recentLatencies(now, name);
    return [name, count(figures.count), count(rate(now, (at) => at.commands?.[name]?.count)), count(figures.errors ?? 0),
            ...kPercentiles.map(([, share]) => duration(percentile(buckets, share)))];
  });
  if (rows.length === 0) return [];
  return [card('Commands', 'of clients', table([['command'], ['total'], ['per second'], ['errors'],
      ...kPercentiles.map(([name]) => [name])], rows))];
}

function serversCard(state) {
  if (!state.servers?.length) return [];
  const has = (server, field) => server[field] > 0;
  // Live bytes are part of what is handed out for nodes and values: one or the other is drawn.
  const parts = (server) => kMemory.filter(([, field]) => has(server, field) &&
      (isNumber(server.live_bytes) ? field !== 'node_bytes' && field !== 'block_bytes' : true));
  const used = kMemory.filter((part) => state.servers.some((server) => parts(server).includes(part)));
  const legend = [...used.map(([name,, color]) => [name, `var(--c-${color})`]), ['free', 'var(--free)']];
  const rows = state.servers.map((server) => {
    const name = make('span', {}, make('b', {}, `server ${server.id ?? '?'}`), ' ', make('span', {class: 'quiet'}, server.address ?? ''));
    if (server.unreachable) return make('div', {class: 'server'}, make('div', {class: 'row'}, name), make('div', {class: 'error'}, server.unreachable));
    const stack = make('div', {class: 'stack'});
    // What waits or is orphaned is part of what was handed out: the first part of the bar is drawn shorter.
    const within = (server.waiting_bytes ?? 0) + (server.orphaned_bytes ?? 0);
    parts(server).forEach(([label, field, color], index) => {
      const size = Math.max(0, server[field] - (index === 0 && field === 'node_bytes' ? within : 0));
      const part = make('div', {title: `${label}: ${bytes(size)}`});
      part.style.cssText = `width: ${100 * size / server.heap_bytes}%; background: var(--c-${color})`;
      stack.append(part);
    });
    const facts = [isNumber(server.extents) && `${count(server.extents)} pieces are handed out`,
                   isNumber(server.chunk_bytes) && `chunks of ${bytes(server.chunk_bytes)}`,
                   isNumber(server.compute_servers) && `compute servers: ${count(server.compute_servers)}`,
                   server.lock_table && `lock table: ${server.lock_table}`].filter(Boolean).join(', ');
    return make('div', {class: 'server'}, make('div', {class: 'row'}, name,
        make('span', {class: 'quiet'}, `${bytes(server.free_bytes)} free of ${bytes(server.heap_bytes)}`)), stack,
        ...(facts ? [make('div', {class: 'row'}, make('span', {class: 'quiet'}, facts))] : []));
  });
  return [card('Memory servers', 'handed out to compute servers',
      make('div', {class: 'legend'}, ...legend.map(([name, color]) => make('span', {}, swatch(color), name))), ...rows)];
}

function leasesCard(state) {
  if (!state.leases?.length) return [];
  return [card('Compute servers', 'with leases', table([['id'], ['incarnation'], ['process', 'text'], ['memory']],
      state.leases.slice(0, 20).map((lease) => [String(lease.compute_id ?? '?'), String(lease.incarnation ?? ''),
          lease.process ?? '', bytes(lease.memory_bytes)])))];
}

function leavesCard(state) {
  if (!state.hot_leaves?.length) return [];
  const most = Math.max(...state.hot_leaves.map((leaf) => leaf.operations ?? 0)) || 1;
  return [card('Hottest leaves', 'by operations', table([['leaf'], ['first key', 'text key-bytes'], ['', 'meter'], ['operations']],
      state.hot_leaves.slice(0, 10).map((leaf) => {
        const bar = make('div');
        bar.style.width = `${100 * (leaf.operations ?? 0) / most}%`;
        return [String(leaf.leaf ?? ''), leaf.first_key ?? '', bar, count(leaf.operations)];
      })))];
}

function drawHeader(state) {
  byId('program').textContent = state.program ?? '';
  document.title = `${state.store ?? 'Gossamer'} – ${state.program ?? 'Gossamer'}`;
  const facts = [['store', state.store], ['fabric', state.fabric], ['workers', state.workers],
                 ['up', isNumber(state.uptime_seconds) && span(state.uptime_seconds)], ['version', state.version]];
  byId('facts').replaceChildren(...facts.filter(([, value]) => value).map(([name, value]) =>
      make('span', {}, `${name} `, make('b', {}, String(value)))));
}
function setStatus(text, kind) {
  byId('status').textContent = text;
  byId('status').className = `status ${kind}`;
}

function take(state) {
  const time = state.uptime_seconds ?? performance.now() / 1000;
  if (samples.length > 0 && time < samples.at(-1).time) samples = [];  // the process was started again
  samples.push({...state, time});
  samples = samples.filter((sample) => sample.time >= time - kSeconds);
  drawHeader(state);
  drawTiles();
  drawCharts();
  byId('tables').replaceChildren(...operationsCard(state), ...commandsCard(state), ...serversCard(state),
      ...leasesCard(state), ...leavesCard(state));
  byId('nothing').hidden = byId('tiles').childElementCount + byId('tables').childElementCount > 0;
  setStatus(state.not_ready ? `not ready: ${state.not_ready}` : 'ready', state.not_ready ? 'bad' : 'good');
}

async function poll() {
  try {
    const response = await fetch('/state', {cache: 'no-store', signal: AbortSignal.timeout(5000)});
    if (!response.ok) throw new Error(`status ${response.status}`);
    take(await response.json());
  } catch (error) {
    setStatus('no answer', 'bad');
  }
  setTimeout(poll, 1000);
}
poll();
