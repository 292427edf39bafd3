'use strict';
// One topic, and one partition.

const crumbs = (...parts) => make('p', { class: 'where' }, link('#/', 'Overview'), parts.flatMap((part) => [' › ', part]));
const partColumns = () => [
  ['partition', (row) => row.partition, (row) => link(row.href, row.name), ''], ['health', (row) => Number(row.is_damaged), health, ''], size('size', 'size_bytes'), number('segments', 'segments'),
  number('records', 'records'), number('log start', 'log_start_offset'), number('stable', 'last_stable_offset'), number('high watermark', 'high_watermark'), number('log end', 'log_end_offset'),
  number('missing offsets', 'missing_offsets'), moment('oldest', 'first_timestamp'), moment('newest', 'last_timestamp'), text('state', 'state'), text('path', 'path'),
];

function topicView(name) {
  const found = model.topics.filter((one) => one.topic === name);
  if (!found.length) return missing('There is no topic of this name in the report.');
  const parts = found.flatMap((one) => one.parts);
  const items = parts.map((part) => ({ name: part.name, value: part.records, href: part.href, bad: part.is_damaged, tip: [['records', count(part.records)], ['size', bytes(part.size_bytes)], ['offsets', `${count(part.log_start_offset)} to ${count(part.log_end_offset)}`]] }));
  return make('div', {},
    crumbs(), make('h1', {}, make('bdi', {}, shown(name))),
    tiles(tile('partitions', count(parts.length)), tile('on disk', bytes(total(parts, 'size_bytes'))), tile('records', count(total(parts, 'records'))), tile('segments', count(total(parts, 'segments'))),
      tile('missing offsets', count(total(parts, 'missing_offsets'))), tile('damaged', count(parts.filter((one) => one.is_damaged).length), parts.some((one) => one.is_damaged) ? 'bad' : '')),
    section('partitions', 'Partitions', figure('Records by partition', 'Records by partition', 200, () => bars(items, count), () => table('Records by partition', partColumns(), parts), 'click to look closer'),
      timeline(parts), table('Partitions', partColumns(), parts)),
    activitySection('activity', parts, 'name'), batchesSection('batches', parts), keysSection('keys', parts), producersSection('producers', parts), transactionsSection('transactions', parts), retentionSection('retention', parts),
    findingsSection('findings', parts.flatMap((part) => part.findings)));
}

const missing = (words) => make('div', {}, crumbs(), make('h1', {}, 'Not found'), make('p', { class: 'none' }, words));
const SEGMENT = () => [
  number('segment', 'base_offset'), number('up to', 'end_offset'), size('size', 'size_bytes'), number('batches', 'batches'), number('records', 'records'), number('missing', 'missing_offsets'), number('gaps', 'gaps'),
  number('index entries', 'offset_entries'), ['bytes an entry', (row) => row.size_bytes / row.offset_entries, (row) => (row.offset_entries ? bytes(Math.round(row.size_bytes / row.offset_entries)) : ''), 'number'], number('time entries', 'time_entries'),
  moment('oldest batch', 'first_timestamp'), moment('newest batch', 'last_timestamp'), text('codecs', 'codecs'),
  ['goes', (row) => row.goes?.at_ms, (row) => (row.goes ? (row.goes.at_ms <= facts.now_ms ? 'now' : time(row.goes.at_ms)) + ', ' + row.goes.reason : ''), ''], text('damage', 'damage', 'text'),
];

const aboutSegment = (row) => [['offsets', `${count(row.base_offset)} to ${count(minus(row.end_offset, 1))}`], ['size', bytes(row.size_bytes)], ['records', count(row.records)], ['batches', count(row.batches)],
  ['missing offsets', count(row.missing_offsets)], ['index entries', count(row.offset_entries)], ['oldest', time(row.first_timestamp)], ['newest', time(row.last_timestamp)], ...(row.damage ? [['damage', row.damage]] : [])];

function segmentsOf(part) {
  const goes = new Map((model.going.get(part.at) ?? []).map((one) => [one.base_offset, one]));
  return (model.segments.get(part.at) ?? []).map((row) => ({ ...row, goes: goes.get(row.base_offset) }));
}

/** Segments on a time axis, a lane for each partition. */
function timeline(parts) {
  const told = parts.slice(0, 60);
  const list = told.flatMap((part, lane) => segmentsOf(part).filter((row) => row.first_timestamp != null && row.last_timestamp != null).map((row, at) => ({ row, part, lane, at })));
  if (!list.length) return null;
  const [first, last] = list.reduce(([least, most], { row }) => [smaller(least, row.first_timestamp), larger(most, row.last_timestamp)], [Infinity, -Infinity]);
  const origin = isDate(last) ? 0 : first; // without a calendar, it is an axis of numbers
  const place = (ms) => Number(minus(ms, origin));
  const items = list.map(({ row, part, lane, at }) => ({
    lane, from: place(row.first_timestamp), to: place(larger(row.last_timestamp, row.first_timestamp)), colour: () => (row.damage ? colour('bad') : shade(at % 2 ? 6 : 0)), opacity: 0.85,
    title: `${part.name}, segment ${row.base_offset}`, tip: aboutSegment(row), href: part.href,
  }));
  const [min, max] = [smallest(items, 'from'), largest(items, 'to')];
  return figure('Segments by time', 'Segments on the time axis', 60 + Math.min(told.length * 26, 700), () => lanes(told.map((part) => part.name), items, [], { axis: origin === 0 ? 'time' : 'value', origin, min, max: max > min ? max : min + 1, format: time }),
    () => table('Segments by time', [['partition', (row) => row.part.name, undefined, ''], ...SEGMENT().map(([title, value, show, kind]) => [title, (one) => value(one.row), show && ((one) => show(one.row)), kind])], list),
    `${time(first)} to ${time(last)} UTC` + (parts.length > told.length ? `; the first ${told.length} of ${count(parts.length)} partitions` : ''));
}

/** Key offsets as marks; those that are the same share one. */
function offsetMarks(part) {
  const named = [['log start', part.log_start_offset, 'c2'], ['stable', part.last_stable_offset, 'c1'], ['high watermark', part.high_watermark, 'c3'], ['log end', part.log_end_offset, 'ink']];
  const marks = [...grouped(named.filter(([, at]) => at != null).map(([name, at, kind]) => ({ name, at, kind })), 'at')];
  return marks.sort((one, other) => compare(one[0], other[0])).map(([at, list]) => ({ at, name: list.map((one) => one.name).join(' = ') + ' ' + count(at), shade: list[list.length - 1].kind }));
}

const LANES = ['segments', 'records', 'index', 'epochs', 'transactions', 'findings'];

/** How far an offset is from where the axis of its partition begins. */
const axisStart = (part) => smaller(part.first_column, part.log_start_offset);
const placeOn = (part) => (offset) => Number(minus(offset, axisStart(part)));

function offsetItems(part) {
  const end = part.log_end_offset;
  const place = placeOn(part);
  const items = segmentsOf(part).map((row, at) => ({ lane: 0, from: place(row.base_offset), to: place(row.end_offset), colour: () => (row.damage ? colour('bad') : shade(at % 2 ? 6 : 0)), title: `segment ${row.base_offset}`, tip: aboutSegment(row) }));
  const first = part.first_column;
  const step = Number(minus(end, first)) / Math.max(part.density.length, 1);
  const told = (at) => count(plus(first, Math.round(at * step)));
  const most = Math.max(...part.entries, 1);
  part.density.map(Number).forEach((value, at) => {
    const [from, to] = [place(first) + at * step, place(first) + (at + 1) * step];
    const about = [['offsets', `${told(at)} to ${told(at + 1)}`], ['records', count(value)], ['index entries', count(part.entries[at])]];
    if (step > 0) items.push({ lane: 1, from, to, colour: () => colour('c2'), opacity: 0.08 + 0.92 * Math.min(value / step, 1), title: 'records', tip: [...about, ['there', (100 * Math.min(value / step, 1)).toFixed(0) + ' %']] });
    if (part.entries[at]) items.push({ lane: 2, from, to, colour: () => colour('c4'), opacity: 0.15 + 0.85 * part.entries[at] / most, title: 'index entries', tip: about });
  });
  const epochs = model.epochs.get(part.at) ?? [];
  epochs.forEach((row, at) => items.push({ lane: 3, from: place(row.start_offset), to: place(epochs[at + 1]?.start_offset ?? end), colour: () => shade(at % 2 ? 5 : 7), title: `leader epoch ${row.epoch}`, tip: [['from offset', count(row.start_offset)]] }));
  for (const row of model.transactions.get(part.at) ?? []) {
    items.push({ lane: 4, from: place(row.first_offset), to: place(row.last_offset ?? end) + 1, colour: () => colour(row.state === 'aborted' ? 'c8' : 'warn'), height: row.state === 'aborted' ? 0.6 : 1, title: `${row.state} transaction`, tip: [['producer', row.producer_id], ['first offset', count(row.first_offset)], ['last offset', row.last_offset == null ? 'not ended' : count(row.last_offset)], ...(row.transactional_id ? [['id', row.transactional_id]] : [])] });
  }
  for (const row of [...part.findings].reverse()) { // the worst is drawn last, over the others
    if (row.offset != null) items.push({ lane: 5, least: 5, from: place(row.offset), to: place(row.end_offset ?? end), colour: () => colour(SEVERITIES[row.severity] === 'bad' ? 'bad' : 'warn'), title: row.severity, tip: [['found', row.cause], ['what to do', row.advice]] });
  }
  for (const row of facts.is_examined ? [] : segmentsOf(part)) {
    if (row.damage) items.push({ lane: 5, least: 5, from: place(row.damage_offset ?? row.base_offset), to: place(row.end_offset), colour: () => colour('bad'), title: 'damage', tip: [['segment', row.base_offset], ['found', row.damage]] });
  }
  return items.filter((item) => item.to >= item.from);
}

function partitionView(slug) {
  const part = model.partitions.find((one) => one.slug === slug) ?? model.partitions.find((one) => one.slug.split('@')[0] === slug);
  if (!part) return missing('There is no partition of this name in the report.');
  const segments = segmentsOf(part);
  const items = offsetItems(part);
  const lags = model.groups.filter((row) => row.topic === part.topic && row.partition === part.partition);
  const end = larger(part.log_end_offset, plus(part.log_start_offset, 1));
  const place = placeOn(part);
  const marks = offsetMarks(part).map((mark) => ({ ...mark, at: place(mark.at) }));
  return make('div', {},
    crumbs(link('#/topic/' + encodeURIComponent(part.topic), part.topic)), make('h1', {}, make('bdi', {}, shown(part.name)), ' ', health(part)),
    make('p', { class: 'where' }, shown(part.path)),
    part.verdict ? make('p', {}, 'Doctor: ', shown(part.verdict)) : null,
    part.damage.length || part.notes.length ? make('p', {}, [...part.damage, ...part.notes].map(shown).join('; ')) : null,
    tiles(tile('on disk', bytes(part.size_bytes)), tile('records', count(part.records)), tile('batches', count(part.batches)), tile('segments', count(part.segments)),
      tile('log start', count(part.log_start_offset)), tile('last stable', count(part.last_stable_offset) || 'not known'), tile('high watermark', count(part.high_watermark) || 'not known'), tile('log end', count(part.log_end_offset)),
      tile('missing offsets', count(part.missing_offsets)), tile('control records', count(part.control_records))),
    section('segments', 'Segments',
      figure('Segments by offset', 'On the offset axis', 90 + 30 * LANES.length, () => lanes(LANES, items, marks, { origin: axisStart(part), min: 0, max: place(end), format: count }), () => table('Segments by offset', SEGMENT(), segments), 'light places are offsets that compaction, or a crash, left empty'),
      timeline([part]),
      segments.length ? figure('Index density', 'Bytes of log for each index entry', 180, () => bars(segments.map((row) => ({ name: String(row.base_offset), value: row.offset_entries ? Math.round(row.size_bytes / row.offset_entries) : 0, tip: [['offset index entries', count(row.offset_entries)], ['time index entries', count(row.time_entries)], ['log', bytes(row.size_bytes)]] })), bytes), () => table('Index density', SEGMENT(), segments)) : null,
      table('Segments', SEGMENT(), segments)),
    activitySection('activity', [part], 'name'), batchesSection('batches', [part]), keysSection('keys', [part]), producersSection('producers', [part]), transactionsSection('transactions', [part]),
    section('epochs', 'Leader epochs', table('Leader epochs', [number('epoch', 'epoch'), number('start offset', 'start_offset')], model.epochs.get(part.at) ?? [])),
    retentionSection('retention', [part]),
    section('groups', 'Groups and lag', table('Groups', [text('group', 'group'), text('state', 'state'), number('committed', 'committed_offset'), number('log end', 'log_end_offset'), number('lag', 'lag'), moment('committed at', 'committed_ms')], lags)),
    findingsSection('findings', part.findings));
}
