'use strict';
// What all parts of the page use: the facts as rows, values as text, elements, tables. Needs exact.js.

let facts = parsed(document.getElementById('facts').textContent);

/** The rows of a table of columns, as objects. */
function rows(table) {
  const names = Object.keys(table);
  const length = names.length ? table[names[0]].length : 0;
  return Array.from({ length }, (_, at) => Object.fromEntries(names.map((name) => [name, table[name][at]])));
}

/** Rows by the value of a column. */
function grouped(list, column) {
  const groups = new Map();
  for (const row of list) {
    if (!groups.has(row[column])) groups.set(row[column], []);
    groups.get(row[column]).push(row);
  }
  return groups;
}

const largest = (list, column) => list.reduce((most, row) => larger(most, row[column]), -Infinity);
const smallest = (list, column) => list.reduce((least, row) => smaller(least, row[column]), Infinity);
const total = (list, column) => list.reduce((sum, row) => plus(sum, row[column] ?? 0), 0);

// Values as text

const NUMBER = new Intl.NumberFormat('en');
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]/gu;

/** A name from the disk, with what cannot be seen, or turns the text around, written out. */
const shown = (text) => String(text).replace(UNSEEN, (sign) => '\\u' + sign.charCodeAt(0).toString(16).padStart(4, '0'));

const count = (value) => (value == null ? '' : NUMBER.format(value));

function bytes(value) {
  if (value == null) return '';
  value = Number(value);
  let at = 0;
  while (value >= 1000 && at < 6) { value /= 1000; at += 1; }
  return (at ? value.toFixed(value < 10 ? 2 : 1) : String(value)) + ' ' + ['B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB'][at];
}

/** A power of two. */
function binary(value) {
  let at = 0;
  while (value >= 1024 && at < 3) { value /= 1024; at += 1; }
  return value + ' ' + ['B', 'KiB', 'MiB', 'GiB'][at];
}

/** A moment in UTC; a number if no calendar has it. */
function time(ms) {
  if (ms == null) return '';
  return isDate(ms) ? new Date(ms).toISOString().replace('T', ' ').slice(0, -5) : String(ms);
}

const LAST_DATE_MS = 864e13;
const isDate = (ms) => ms >= -LAST_DATE_MS && ms <= LAST_DATE_MS;

/** Parts of a moment: its day, its hour and minute, or both; all of one that is a number. */
function timePart(ms, ...names) {
  if (!isDate(ms)) return time(ms);
  const [date, clock] = time(ms).split(' ');
  const parts = { date, day: date.slice(-5), clock: clock.slice(0, 5) };
  return names.map((name) => parts[name]).join(' ');
}

const HOUR_MS = 3600000;
const startOf = (hour) => times(hour, HOUR_MS);

/** How long a number of milliseconds is. */
function span(ms) {
  if (ms == null || ms < 0) return ms === -1 ? 'forever' : '';
  ms = Number(ms);
  for (const [unit, size] of [['y', 31536e6], ['d', 864e5], ['h', 36e5], ['min', 6e4], ['s', 1e3]]) {
    if (ms >= size) return (ms / size).toFixed(ms / size < 10 ? 1 : 0).replace(/\.0$/, '') + ' ' + unit;
  }
  return ms + ' ms';
}

const ago = (ms) => (ms == null ? '' : ms > facts.now_ms ? 'in ' + span(minus(ms, facts.now_ms)) : span(minus(facts.now_ms, ms)) + ' ago');

// Elements. Text only ever becomes text, never HTML.

/** An element with attributes and children; a child that is no element becomes text. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, '');
    else if (value != null && value !== false) element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child != null && child !== false));
  return element;
}

const link = (href, text) => make('a', { href, title: shown(text) }, make('bdi', {}, shown(text)));
const badge = (kind, text) => make('span', { class: 'badge ' + kind }, text);
const SEVERITIES = { fatal: 'bad', loss: 'bad', damage: 'bad', warning: 'warn', note: 'note' };

function tile(name, value, kind = '') {
  const atCommas = value.split(/(?<=,)/).flatMap((part) => [part, make('wbr')]); // where a long offset is broken
  const told = make('b', { class: value.length > 14 ? 'long' : null }, atCommas);
  return make('div', { class: 'tile ' + kind }, told, make('span', {}, name));
}

/** Tiles in rows that are full where there is room. */
function tiles(...list) {
  return make('div', { class: 'tiles', style: `--across:${list.length > 8 ? Math.ceil(list.length / 2) : list.length}` }, list);
}

function section(id, title, ...children) {
  return make('section', { id, 'aria-labelledby': id + '-title' }, make('h2', { id: id + '-title' }, title), ...children);
}

// Tables

const PAGE = 100;
const sorted = new Map(); // by the table's name: the column's title and the direction, kept while the page is open

/**
 * A table that can be sorted. Columns are [title, value, show, kind]: `value(row)` is what it is sorted by,
 * `show(row)` what is seen, as text or element; `kind` is number or text.
 */
function table(name, all, list) {
  if (!list.length) return make('p', { class: 'none' }, 'There is none.');
  const columns = all.filter(([, value], at) => !at || list.some((row) => !isEmpty(value(row)))); // without those that are empty
  const body = make('tbody');
  const heads = columns.map(([title, , , kind], at) =>
    make('th', { class: kind, scope: 'col' }, make('button', { type: 'button', onclick: () => sort(at) }, title)));
  const more = make('button', { class: 'more', type: 'button', onclick: () => fill(Infinity) });
  let order = list;

  function sort(at, direction) {
    const [title, , , kind] = columns[at];
    const known = sorted.get(name);
    const down = direction ?? (known && known[0] === title ? -known[1] : kind === 'number' ? -1 : 1);
    sorted.set(name, [title, down]);
    const value = columns[at][1];
    order = [...list].sort((one, other) => compare(value(one), value(other)) * down);
    heads.forEach((head, number) => head.removeAttribute('aria-sort') || (number === at && head.setAttribute('aria-sort', down > 0 ? 'ascending' : 'descending')));
    fill(PAGE);
  }

  function fill(most) {
    body.replaceChildren(...order.slice(0, most).map((row) => make('tr', {}, columns.map(([, value, show, kind]) =>
      make('td', { class: kind }, cell((show ?? value)(row)))))));
    more.hidden = order.length <= most;
    more.textContent = `Show all ${count(order.length)} rows`;
  }

  const [title, down] = sorted.get(name) ?? [];
  const before = columns.findIndex((column) => column[0] === title);
  if (before >= 0) sort(before, down);
  else fill(PAGE);
  return make('div', {}, make('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': name },
    make('table', {}, make('thead', {}, make('tr', {}, heads)), body)), more);
}

const isEmpty = (value) => value == null || value === '' || Number.isNaN(value);
const cell = (value) => (value instanceof Node ? value : value == null ? '' : shown(value));
const compare = (one, other) =>
  one == null || other == null ? (one == null) - (other == null)
    : isNumber(one) && isNumber(other) ? (one > other) - (one < other) : String(one).localeCompare(String(other), 'en', { numeric: true });

// Short forms of columns

const text = (title, name, kind = '') => [title, (row) => row[name], undefined, kind];
const number = (title, name) => [title, (row) => row[name], (row) => count(row[name]), 'number'];
const size = (title, name) => [title, (row) => row[name], (row) => bytes(row[name]), 'number'];
const moment = (title, name) => [title, (row) => row[name], (row) => time(row[name]), ''];
