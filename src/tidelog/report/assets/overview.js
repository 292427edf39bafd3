'use strict';
// All roots: totals, topics, activity, codecs and sizes, producers, retention, groups, findings.

const SECTIONS = [
  ['topics', 'Topics'], ['activity', 'Activity'], ['batches', 'Batches'], ['skew', 'Skew'], ['producers', 'Producers'], ['transactions', 'Transactions'],
  ['retention', 'Retention'], ['groups', 'Groups'], ['findings', 'Findings'],
];
let model = null; // the facts as rows, with links; made anew when facts arrive

function understand() {
  const partitions = rows(facts.partitions);
  const many = facts.roots.root.length > 1;
  partitions.forEach((one, at) => {
    const [root, name] = [one.path.slice(0, one.path.lastIndexOf('/')), one.path.slice(one.path.lastIndexOf('/') + 1)];
    one.at = at;
    one.name = name;
    one.root = root;
    one.slug = encodeURIComponent(name) + (many ? '@' + facts.roots.root.indexOf(root) : '');
    one.href = '#/partition/' + one.slug;
    one.findings = [];
  });
  const findings = rows(facts.findings);
  findings.forEach((one) => one.at != null && partitions[one.at].findings.push(one));
  const topics = rows(facts.topics);
  topics.forEach((one) => {
    one.href = '#/topic/' + encodeURIComponent(one.topic);
    one.parts = partitions.filter((part) => part.topic === one.topic && part.state === one.state);
  });
  const of = (name) => grouped(rows(facts[name]), 'at');
  model = {
    partitions, findings, topics, groups: rows(facts.groups), segments: of('segments'), hours: of('hours'), codecs: of('codecs'), keys: of('keys'), producers: of('producers'),
    transactions: of('transactions'), epochs: of('epochs'), retention: new Map(rows(facts.retention).map((one) => [one.at, one])), going: of('going'),
  };
}

function health(one) {
  const worst = one.findings.find((each) => SEVERITIES[each.severity] === 'bad');
  if (one.is_damaged) return badge('bad', worst ? worst.severity : 'damaged');
  if (worst) return badge('warn', worst.kind); // records that retention deletes: nothing is broken
  if (one.findings.some((each) => each.severity === 'warning') || one.open_transactions) return badge('warn', 'warning');
  return one.notes.length ? badge('note', 'note') : badge('ok', 'ok');
}
/** The worst of its partitions. */
const healthOfTopic = (one) => {
  if (one.damaged) return badge('bad', `${one.damaged} damaged`);
  const kinds = one.parts.map((part) => health(part).className);
  return kinds.includes('badge warn') ? badge('warn', 'warning') : kinds.includes('badge note') ? badge('note', 'note') : badge('ok', 'ok');
};
const gather = (map, parts) => parts.flatMap((part) => map.get(part.at) ?? []);

function overview() {
  const all = facts.totals;
  return make('div', {},
    make('h1', {}, 'Overview'),
    make('p', { class: 'where' }, facts.paths.map(shown).join(', ')),
    tiles(
      tile('topics', count(all.topics)), tile('partitions', count(all.partitions)), tile('on disk', bytes(all.size_bytes)), tile('records', count(all.records)),
      tile('segments', count(all.segments)), tile('not live', count(all.marked)),
      tile('open transactions', count(all.open_transactions), all.open_transactions ? 'warn' : ''),
      tile('damaged partitions', count(all.damaged), all.damaged ? 'bad' : '')),
    rootsSection(), topicsSection(), activitySection('activity', model.partitions, 'topic'), batchesSection('batches', model.partitions), skewSection(), producersSection('producers', model.partitions),
    transactionsSection('transactions', model.partitions), retentionSection('retention', model.partitions), groupsSection(), findingsSection('findings', model.findings));
}

function rootsSection() {
  return section('roots', 'Roots', table('Roots', [
    text('root', 'root', 'text'), text('node', 'node_id'), text('cluster', 'cluster_id'),
    ['clean shutdown', (row) => Number(row.clean_shutdown), (row) => (row.clean_shutdown ? badge('ok', 'yes') : badge('warn', 'no')), ''],
    ['verdict', (row) => row.verdict, (row) => row.verdict ?? (facts.is_examined ? '' : 'doctor was not asked'), 'text'],
  ], rows(facts.roots)));
}

function topicColumns() {
  return [
    ['topic', (row) => row.topic, (row) => link(row.href, row.topic), ''], ['health', (row) => row.damaged, healthOfTopic, ''],
    size('size', 'size_bytes'), number('partitions', 'partitions'), number('segments', 'segments'), number('records', 'records'), number('offsets', 'offsets'),
    moment('oldest', 'first_timestamp'), ['newest', (row) => row.last_timestamp, (row) => ago(row.last_timestamp), ''], text('codecs', 'codecs'), text('state', 'state'),
  ];
}

function topicsSection() {
  const tree = () => ({
    tooltip: tooltip((event) => event.data && event.data.tip ? tip(event.data.title, event.data.tip) : ''),
    series: [{
      type: 'treemap', animation: false, roam: false, nodeClick: false, breadcrumb: { show: false }, width: '100%', height: '100%', top: 0, left: 0, right: 0, bottom: 0,
      label: { formatter: (event) => shown(event.name), color: colour('card'), opacity: 1, overflow: 'truncate' }, visibleMin: 30, leafDepth: null,
      upperLabel: { show: true, height: 18, color: colour('ink'), formatter: (event) => shown(event.name), overflow: 'truncate' },
      itemStyle: { borderColor: colour('card'), borderWidth: 0, gapWidth: 1 }, levels: [{ itemStyle: { gapWidth: 3 }, upperLabel: { show: false } }, { itemStyle: { borderWidth: 1 } }, {}],
      data: model.topics.map(treeNode),
    }],
  });
  return section('topics', 'Topics',
    facts.totals.size_bytes ? figure('Bytes by topic', 'Bytes by topic and partition', 320, tree, () => table('Bytes by topic', topicColumns(), model.topics), 'click to look closer; damaged ones are red') : null,
    table('Topics', topicColumns(), [...model.topics].sort((one, other) => other.size_bytes - one.size_bytes)));
}

function treeNode(topic, at) {
  const told = (one) => [['size', bytes(one.size_bytes)], ['records', count(one.records)], ['segments', count(one.segments)], ['newest', ago(one.last_timestamp)], ['damaged', one.damaged || one.is_damaged ? 'yes' : 'no']];
  const leaf = (part) => ({ name: String(part.partition), title: part.name, value: part.size_bytes, href: part.href, tip: told(part), itemStyle: { color: part.is_damaged ? colour('bad') : shade(at) } });
  const base = { name: topic.topic, title: topic.topic, href: topic.href, tip: told(topic), value: topic.size_bytes };
  return topic.parts.length > 1 ? { ...base, itemStyle: { borderColor: colour('line') }, children: topic.parts.map(leaf) } : { ...leaf(topic.parts[0]), name: topic.topic };
}

// Sections that a topic and a partition have, too

const RANGES = [['all', Infinity], ['30 days', 720], ['7 days', 168], ['1 day', 24]];
const MOST_BARS = 240;
const chosen = { range: 'all', figure: 'bytes' }; // what the buttons over activity say, kept while the page is open

/** Sums by series and time, in steps wide enough that not too many fit: [series, hours a step, first, steps]. */
function barsOver(list, column, order) {
  const end = largest(list, 'hour') + facts.hour_width;
  const wanted = RANGES.find(([name]) => name === chosen.range)[1];
  const oldest = Math.max(smallest(list, 'hour'), end - wanted);
  let width = facts.hour_width;
  while ((end - oldest) / width > MOST_BARS) width *= 2;
  const first = Math.floor(oldest / width) * width;
  const steps = Math.ceil((end - first) / width);
  const sums = new Map(order.map((name) => [name, new Array(steps).fill(0)]));
  for (const row of list) if (row.hour >= oldest) {
    const [values, at] = [sums.get(row.series), Math.floor((row.hour - first) / width)];
    values[at] = plus(values[at], row[column]);
  }
  return [[...sums].map(([name, values]) => ({ name, values })), width, first, steps];
}

const COUNTED = () => (facts.has_records ? 'a record counts for the hour of its timestamp, bytes and batches for that of the batch’s largest (UTC)' : 'a batch counts for the hour of its largest timestamp (UTC)');

/** Bytes, records or batches by time, stacked by what a partition's `key` says. */
function activitySection(id, parts, key) {
  const title = key === 'name' ? 'partition' : key;
  const list = gather(model.hours, parts).filter((row) => row.hour >= 0).map((row) => ({ ...row, series: String(model.partitions[row.at][key]) }));
  if (!list.length) return section(id, 'Activity', make('p', { class: 'none' }, 'No batch has a timestamp.'));
  const order = [...grouped(list, 'series')].sort((one, other) => total(other[1], 'bytes') - total(one[1], 'bytes')).map(([name]) => name);
  const named = order.length > 9 ? order.slice(0, 8) : order;
  const others = `${count(order.length - named.length)} others`;
  const drawn = order.length > 9 ? list.map((row) => (named.includes(row.series) ? row : { ...row, series: others })) : list;
  const option = () => {
    const [series, width, first, steps] = barsOver(drawn, chosen.figure, order.length > 9 ? [...named, others] : named);
    return timeBars(series, chosen.figure === 'bytes' ? bytes : count, width * HOUR_MS, startOf(first), steps);
  };
  const made = figure(`Activity by ${title}`, parts.length > 1 ? `By time and ${title}` : 'By time', 260, option, () => table(`Activity by ${title}`, [
    ['hour', (row) => row.hour, (row) => time(startOf(row.hour)), ''], text(title, 'series'), number('records', 'records'), size('bytes', 'bytes'), number('batches', 'batches'),
  ], list), `${COUNTED()}; the table has ${facts.hour_width === 1 ? 'hours' : `steps of ${facts.hour_width} hours`}`);
  const again = () => { const { chart } = made.querySelector('.chart'); if (chart.drawn) show(chart); };
  return section(id, 'Activity', choice('figure', ['bytes', 'records', 'batches'], again), choice('range', RANGES.map(([name]) => name), again), made);
}

/** Buttons of which one is chosen. */
function choice(what, names, changed) {
  const buttons = names.map((name) => make('button', { type: 'button', 'aria-pressed': String(name === chosen[what]), onclick: () => {
    chosen[what] = name;
    buttons.forEach((each) => each.setAttribute('aria-pressed', String(each.textContent === name)));
    changed();
  } }, name));
  return make('span', { class: 'switch', role: 'group', 'aria-label': what }, buttons);
}

/** How many times its size on disk a codec's data is uncompressed. */
const ratio = (row) => row.uncompressed / Math.max(row.bytes, 1);
const each = (row) => row.bytes / Math.max(Number(row.records), 1);
const UNREAD = 'Run the report with --records for compression ratios and keys: that decodes records.';

function batchesSection(id, parts) {
  const codecs = [...grouped(gather(model.codecs, parts), 'codec')]
    .map(([codec, list]) => ({ codec, batches: total(list, 'batches'), bytes: total(list, 'bytes'), records: total(list, 'records'), uncompressed: total(list, 'uncompressed_bytes') }))
    .sort((one, other) => other.bytes - one.bytes);
  const columns = [text('codec', 'codec'), size('bytes', 'bytes'), number('batches', 'batches'), number('records', 'records'),
    ['bytes a record', each, (row) => bytes(Math.round(each(row))), 'number']];
  if (facts.has_records) columns.push(size('uncompressed', 'uncompressed'), ['compression ratio', (row) => ratio(row), (row) => ratio(row).toFixed(2), 'number']);
  const items = codecs.map((row) => ({ name: row.codec, value: row.bytes, tip: [['bytes', bytes(row.bytes)], ['batches', count(row.batches)], ['records', count(row.records)], ['bytes a record', bytes(Math.round(each(row)))], ...(facts.has_records ? [['compression ratio', ratio(row).toFixed(2)]] : [])] }));
  return section(id, 'Codecs and sizes', codecs.length ? [
    figure('Codecs', 'Bytes by codec', 40 + 34 * items.length + 20, () => bars(items, bytes, true), () => table('Codecs', columns, codecs)),
    make('div', { class: 'pair' }, histogram('Batch sizes', 'batch_sizes', 'batches', parts), histogram('Record sizes', 'record_sizes', 'records', parts, 'on disk, the average of their batch')),
  ] : make('p', { class: 'none' }, 'There is no batch.'));
}

function histogram(name, column, what, parts, hint) {
  const sums = [];
  for (const part of parts) part[column].forEach((value, at) => { sums[at] = plus(sums[at] ?? 0, value); });
  const items = sums.map((value, at) => ({ value: value ?? 0, from: at ? 2 ** at : 0, to: 2 ** (at + 1) - 1 }));
  const used = items.slice(Math.max(items.findIndex((item) => item.value), 0)).map((item) => ({ ...item, name: '≥ ' + binary(item.from), tip: [['from', `${count(item.from)} B`], ['to', `${count(item.to)} B`], [what, count(item.value)]] }));
  return figure(name, name, 200, () => bars(used, count), () => table(name, [number('from (bytes)', 'from'), number('to (bytes)', 'to'), number(what, 'value')], used), hint);
}

function skewSection() {
  const list = model.topics.filter((one) => one.state === 'live' && one.partitions > 1 && one.records).map((one) => {
    const counts = one.parts.map((part) => part.records);
    const [most, mean] = [counts.reduce(larger), Number(one.records) / counts.length];
    return { ...one, largest: most, smallest: counts.reduce(smaller), mean, skew: Number(most) / mean };
  }).sort((one, other) => other.skew - one.skew);
  return section('skew', 'Skew across partitions', make('p', {}, 'Records of the fullest partition divided by the average of all partitions. 1 is even.'), table('Skew', [
    ['topic', (row) => row.topic, (row) => link(row.href, row.topic), ''], ['skew', (row) => row.skew, (row) => row.skew.toFixed(2), 'number'],
    number('fullest', 'largest'), ['average', (row) => row.mean, (row) => count(Math.round(row.mean)), 'number'], number('emptiest', 'smallest'), number('partitions', 'partitions'),
  ], list), keys(model.partitions.filter((part) => part.state === 'live' && !part.is_internal)));
}

/** How keys are spread over partitions, and those that come most often. */
function keys(parts) {
  if (!facts.has_records) return make('p', { class: 'none' }, UNREAD);
  const share = (part, found) => (found ? found / Math.max(part.keyed_records, 1) : 0);
  const percent = (value) => (100 * value).toFixed(1) + ' %';
  const list = parts.filter((part) => part.keyed_records || part.null_keys).map((part) => ({ ...part, top: share(part, model.keys.get(part.at)?.[0]?.records) }));
  const frequent = gather(model.keys, parts).map((row) => ({ ...row, share: share(model.partitions[row.at], row.records) })).sort((one, other) => other.records - one.records);
  return [make('h3', {}, 'Keys by partition'), make('p', {}, 'Counts of distinct keys are approximate, within a few percent. “Most frequent” is the share of the most frequent key in the records with a key.'),
    table('Keys by partition', [
      partColumn, number('with key', 'keyed_records'), number('without key', 'null_keys'), number('distinct keys', 'distinct_keys'), ['most frequent', (row) => row.top, (row) => percent(row.top), 'number'],
    ], list),
    make('h3', {}, 'Most frequent keys'), table('Most frequent keys', [['key', (row) => row.key, (row) => row.key || make('i', { class: 'none' }, 'empty'), 'text'], partColumn, number('records', 'records'), ['share', (row) => row.share, (row) => percent(row.share), 'number']], frequent)];
}
const keysSection = (id, parts) => section(id, 'Keys', keys(parts));

const partColumn = ['partition', (row) => model.partitions[row.at].name, (row) => link(model.partitions[row.at].href, model.partitions[row.at].name), ''];

function producersSection(id, parts) {
  const list = gather(model.producers, parts).sort((one, other) => compare(other.records, one.records));
  const others = total(parts, 'other_producers');
  return section(id, 'Producers', others ? make('p', {}, `${count(others)} more producers, which wrote less, are left out.`) : null, table('Producers', [
    text('producer id', 'producer_id', 'number'), partColumn, number('records', 'records'), number('batches', 'batches'), size('bytes', 'bytes'), text('epoch', 'epoch', 'number'), moment('newest', 'last_timestamp'),
  ], list));
}

function transactionsSection(id, parts) {
  const list = gather(model.transactions, parts);
  return section(id, 'Transactions', make('p', {}, `${count(total(parts, 'open_transactions'))} open, ${count(total(parts, 'aborted_transactions'))} aborted`), table('Transactions', [
    ['state', (row) => row.state, (row) => badge(row.state === 'aborted' ? 'note' : row.state === 'hanging' ? 'bad' : 'warn', row.state), ''], partColumn,
    text('producer id', 'producer_id', 'number'), text('epoch', 'producer_epoch', 'number'), text('transactional id', 'transactional_id', 'text'), number('first offset', 'first_offset'), number('last offset', 'last_offset'), moment('updated', 'updated_ms'),
  ], list));
}

function retentionSection(id, parts) {
  const rules = parts.map((part) => model.retention.get(part.at)).filter(Boolean);
  const going = gather(model.going, parts).sort((one, other) => compare(one.at_ms, other.at_ms));
  const due = going.filter((one) => one.at_ms <= facts.now_ms);
  const days = new Map();
  for (const one of going) {
    const day = Math.max(Math.floor(Number(minus(one.at_ms, facts.now_ms)) / 864e5) + (one.at_ms > facts.now_ms), 0);
    days.set(day, { bytes: (days.get(day)?.bytes ?? 0) + one.size_bytes, segments: (days.get(day)?.segments ?? 0) + 1 });
  }
  const last = Math.min(Math.max(...days.keys(), 1), 30);
  const items = Array.from({ length: last + 1 }, (_, day) => ({
    name: day ? time(facts.now_ms + day * 864e5).slice(5, 10) : 'now', value: days.get(day)?.bytes ?? 0, bad: !day,
    tip: [['bytes', bytes(days.get(day)?.bytes ?? 0)], ['segments', count(days.get(day)?.segments ?? 0)]],
  }));
  const columns = [partColumn, number('segment', 'base_offset'), size('size', 'size_bytes'), ['goes', (row) => row.at_ms, (row) => (row.at_ms <= facts.now_ms ? 'now' : time(row.at_ms)), ''], text('by', 'reason')];
  return section(id, 'Retention', make('p', {}, `At ${time(facts.now_ms)} UTC ${count(due.length)} segments with ${bytes(total(due, 'size_bytes'))} are due; at the rate of the last 24 hours ${count(going.length - due.length)} more go later.`),
    going.length ? figure('Deletions by day', 'Bytes that retention deletes', 200, () => bars(items, bytes), () => table('Deletions', columns, going), 'by day from now on') : null,
    make('h3', {}, 'Rules'),
    table('Retention rules', [partColumn, text('cleanup', 'cleanup_policy'), ['retention.ms', (row) => row.retention_ms, (row) => span(row.retention_ms), 'number'],
      ['retention.bytes', (row) => row.retention_bytes, (row) => (row.retention_bytes < 0 ? 'unlimited' : bytes(row.retention_bytes)), 'number'], size('a day', 'bytes_per_day'), text('why the rest stays', 'stays', 'text')], rules));
}

function groupsSection() {
  const lags = [...grouped(model.groups, 'group')].map(([name, list]) => ({ name, value: larger(total(list, 'lag'), 0), list })).sort((one, other) => compare(other.value, one.value));
  const items = lags.slice(0, 20).map((one) => ({ ...one, tip: [['lag', count(one.value)], ['state', one.list[0].state], ['partitions', count(one.list.filter((row) => row.topic != null).length)]] }));
  const columns = [text('group', 'group'), text('kind', 'kind'), text('state', 'state'), ['topic', (row) => row.topic, (row) => (row.topic == null ? '' : link('#/topic/' + encodeURIComponent(row.topic), row.topic)), ''],
    text('partition', 'partition', 'number'), number('committed', 'committed_offset'), number('log end', 'log_end_offset'), number('lag', 'lag'), text('member', 'member_id', 'text'), text('client', 'client_id'), moment('committed at', 'committed_ms')];
  return section('groups', 'Groups and lag', items.length ? figure('Lag by group', 'Lag by group', 40 + 28 * items.length, () => bars(items, count, true), () => table('Lag by group', [text('group', 'name'), number('lag', 'value')], lags)) : null, table('Groups', columns, model.groups));
}

function findingsSection(id, list) {
  return section(id, 'Findings', make('p', {}, facts.is_examined ? 'What doctor found, the worst first.' : 'Doctor was not asked (tidelog report --doctor): only what headers and indexes show is here.'), table('Findings', [
    ['severity', (row) => Object.keys(SEVERITIES).indexOf(row.severity), (row) => badge(SEVERITIES[row.severity], row.severity), ''], text('kind', 'kind'),
    ['where', (row) => row.file, (row) => (row.at == null ? row.file : make('span', {}, link(model.partitions[row.at].href, model.partitions[row.at].name), row.file === model.partitions[row.at].path ? null : ' ' + shown(row.file.slice(row.file.lastIndexOf('/') + 1)))), 'text'],
    number('position', 'position'), number('offset', 'offset'), text('found', 'cause', 'text'), text('what Kafka does', 'kafka', 'text'), text('what to do', 'advice', 'text'),
  ], list), damageSection(list));
}

/** What headers show of damage, where doctor was not asked. */
function damageSection(list) {
  const told = facts.is_examined ? [] : model.partitions.flatMap((part) => part.damage.map((damage) => ({ at: part.at, damage })));
  return told.length && list === model.findings ? table('Damage', [partColumn, text('damage', 'damage', 'text')], told) : null;
}
