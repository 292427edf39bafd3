// The browser of records. Everything that comes from a log is shown as text (textContent), never as markup;
// characters that would turn or hide text are shown by their numbers.
(() => {
  'use strict';

  const POLL_MS = 1000;
  const KEPT_ROWS = 2000;
  const SIGNS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\ufff9-\ufffb]/u;
  const byId = (id) => document.getElementById(id);
  const form = byId('records-form');
  const field = (name) => form.elements.namedItem(name);
  let shown = null; // the range on display: {first, next}
  let partitions = new Map();
  let listed = ''; // the partitions as they were sent last
  let wanted = null; // the partition that another part of the page shows
  let asked = 0; // the number of the last question: older answers are dropped
  let waiting = 0; // questions without an answer

  function make(tag, text, kind) {
    const element = document.createElement(tag);
    if (text !== undefined) put(element, text);
    if (kind) element.className = kind;
    return element;
  }

  // Text, with what would not be seen, or would turn what follows, by its number.
  function put(element, text) {
    element.replaceChildren();
    let plain = '';
    for (const sign of String(text)) {
      if (!SIGNS.test(sign)) {
        plain += sign;
        continue;
      }
      if (plain) element.append(plain);
      plain = '';
      const note = document.createElement('span');
      note.className = 'records-sign';
      note.textContent = `U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`;
      element.append(note);
    }
    if (plain) element.append(plain);
    return element;
  }

  const oneLine = (text) => text.replace(/[\t\n]/g, ' ');

  function putValue(element, value, size) {
    if (value === null) {
      element.append(make('span', 'null', 'records-null'));
      return;
    }
    const text = typeof value === 'string' ? value : value.base64 !== undefined ? `base64 ${value.base64}` : JSON.stringify(value);
    const isolated = document.createElement('bdi');
    isolated.dir = 'ltr';
    put(isolated, oneLine(text));
    element.append(isolated);
    if (size !== undefined) element.append(make('span', ` … ${size} bytes`, 'records-null'));
  }

  function timeText(milliseconds) {
    if (milliseconds < 0) return '';
    return isDate(milliseconds) ? new Date(milliseconds).toISOString().replace('T', ' ').replace('Z', '') : String(milliseconds);
  }

  async function ask(path, parameters) {
    const url = new URL(path, document.baseURI);
    url.search = new URLSearchParams(parameters).toString();
    let answer;
    try {
      answer = await fetch(url, { credentials: 'omit', cache: 'no-store' });
    } catch {
      throw new Error('tidelog ui does not answer: it may have been stopped');
    }
    const body = parsed(await answer.text());
    if (!answer.ok) throw new Error(body.error);
    return body;
  }

  function say(text, isError) {
    const state = byId('records-state');
    put(state, text);
    state.className = isError ? 'records-error' : '';
  }

  // ---- which partition

  async function loadPartitions() {
    const found = await ask('api/partitions', {});
    const now = JSON.stringify(found);
    if (now === listed) return;
    listed = now;
    partitions = new Map();
    for (const one of found.partitions) {
      if (!partitions.has(one.topic)) partitions.set(one.topic, []);
      partitions.get(one.topic).push(one.partition);
    }
    const topic = field('topic');
    const before = topic.value;
    topic.replaceChildren(...[...partitions.keys()].map((name) => choice(name)));
    if (partitions.has(before)) topic.value = before;
    showNumbers();
  }

  function choice(value) {
    const option = document.createElement('option');
    option.value = value;
    // An option holds text only, so signs are written into it.
    option.textContent = [...String(value)].map((sign) => (SIGNS.test(sign) ? `U+${sign.codePointAt(0).toString(16).toUpperCase()}` : sign)).join('');
    return option;
  }

  function showNumbers() {
    const partition = field('partition');
    const before = partition.value;
    const numbers = partitions.get(field('topic').value) ?? [];
    partition.replaceChildren(...numbers.map((number) => choice(number)));
    if (numbers.map(String).includes(before)) partition.value = before;
  }

  function showWhere() {
    const from = field('from').value;
    const label = byId('records-where');
    label.hidden = from !== 'offset' && from !== 'since';
    label.firstChild.textContent = from === 'since' ? 'Time ' : 'Offset ';
    field('where').placeholder = from === 'since' ? '2026-11-15T10:00, or 10 minutes ago' : '0';
  }

  // ---- records

  function filters() {
    const found = { topic: field('topic').value, partition: field('partition').value };
    for (const name of ['key', 'key_match', 'contains', 'match', 'header', 'until']) {
      if (field(name).value) found[name] = field(name).value;
    }
    for (const name of ['committed', 'tombstones']) if (field(name).checked) found[name] = 'true';
    return found;
  }

  function firstQuestion() {
    const found = filters();
    const from = field('from').value;
    if (from === 'last') return { ...found, last: field('limit').value };
    if (from === 'offset') found.offset = field('where').value;
    if (from === 'since') found.since = field('where').value;
    return { ...found, limit: field('limit').value };
  }

  async function show(question, how) {
    const number = ++asked;
    waiting += 1;
    if (how !== 'follow') say('reading …');
    try {
      const found = await ask('api/records', question);
      if (number !== asked) return;
      fill(found, how);
    } catch (error) {
      if (number !== asked) return;
      byId('records-follow').checked = false;
      say(error.message, true);
    } finally {
      waiting -= 1;
    }
  }

  function fill(found, how) {
    const body = byId('records-table').tBodies[0];
    const rows = found.records.map(recordRow);
    if ((how === 'newer' || how === 'follow') && shown) {
      body.append(...rows);
      while (body.rows.length > KEPT_ROWS) body.rows[0].remove();
      shown = { first: body.rows.length ? body.rows[0].dataset.offset : shown.first, next: found.next_offset };
    } else if (how === 'older' && shown) {
      body.prepend(...rows);
      while (body.rows.length > KEPT_ROWS) body.rows[body.rows.length - 1].remove();
      shown = { first: found.searched_from, next: body.rows.length === KEPT_ROWS ? String(BigInt(body.rows[KEPT_ROWS - 1].dataset.offset) + 1n) : shown.next };
    } else {
      body.replaceChildren(...rows);
      shown = { first: found.searched_from, next: found.next_offset };
    }
    byId('records-table').hidden = !body.rows.length;
    const isStart = BigInt(shown.first) <= BigInt(found.log_start_offset);
    byId('records-older').disabled = isStart;
    byId('records-newer').disabled = false;
    const count = body.rows.length === 1 ? '1 record' : `${body.rows.length} records`;
    const searched = `${count} in ${offsetsText(shown.first, shown.next)}`;
    const whole = `; the log has ${offsetsText(found.log_start_offset, found.log_end_offset)}`;
    say(searched + whole + (found.is_complete ? '' : '; the search stopped there: choose Older or Newer to go on'));
    const damage = byId('records-damage');
    damage.replaceChildren(...found.damage.map((text) => make('li', text)));
    damage.hidden = !found.damage.length;
    if (how === undefined) showCommands(byId('records-commands'), found.commands);
  }

  // Offsets from the first to before the end, as text.
  function offsetsText(first, end) {
    return BigInt(end) > BigInt(first) ? `offsets ${first} to ${BigInt(end) - 1n}` : `no offsets, before ${end}`;
  }

  function recordRow(record) {
    const row = document.createElement('tr');
    row.dataset.offset = record.at;
    const link = make('button', record.at);
    link.type = 'button';
    link.addEventListener('click', () => showRecord(record.topic, record.partition, record.at));
    const cells = Array.from({ length: 5 }, () => document.createElement('td'));
    cells[0].append(link);
    cells[1].append(timeText(record.timestamp));
    putValue(cells[2], record.key, record.cut?.key);
    putValue(cells[3], record.value, record.cut?.value);
    cells[4].append(record.headers.length ? putHeaders(record.headers) : '');
    row.append(...cells);
    return row;
  }

  function putHeaders(headers) {
    const all = document.createElement('span');
    headers.forEach(([name, value], index) => {
      if (index) all.append(', ');
      const isolated = document.createElement('bdi');
      put(isolated, `${name}=`);
      all.append(isolated);
      putValue(all, value);
    });
    return all;
  }

  function showCommands(place, commands) {
    place.hidden = !commands.length;
    for (const old of place.querySelectorAll('.records-command')) old.remove();
    for (const command of commands) {
      const line = make('div', undefined, 'records-command');
      const copy = make('button', 'Copy');
      copy.type = 'button';
      copy.setAttribute('aria-label', 'Copy the command');
      copy.addEventListener('click', () => navigator.clipboard?.writeText(command).then(() => put(copy, 'Copied'), () => {}));
      line.append(make('pre', command), copy);
      place.append(line);
    }
  }

  // ---- one record

  async function showRecord(topic, partition, offset) {
    try {
      const found = await ask('api/record', { topic, partition, offset });
      const place = byId('record');
      place.hidden = false;
      put(byId('record-title'), `Record ${offset} of ${topic}, partition ${partition}`);
      const buttons = found.forms.map((one) => {
        const button = make('button', one.name);
        button.type = 'button';
        button.addEventListener('click', () => showForm(buttons, found, one));
        return button;
      });
      byId('record-forms').replaceChildren(...buttons);
      showForm(buttons, found, found.forms.find((one) => !one.error));
      showPairs(byId('record-headers'), found.record.headers, 'no headers');
      showPairs(byId('record-batch'), Object.entries(found.batch).map(([name, value]) => [name.replaceAll('_', ' '), String(value)]), '');
      showCommands(byId('record-commands'), found.commands);
      remember({ topic, partition, offset });
      place.focus();
      place.scrollIntoView({ block: 'nearest' });
    } catch (error) {
      say(error.message, true);
    }
  }

  function showForm(buttons, found, form) {
    for (const button of buttons) button.setAttribute('aria-pressed', String(button.textContent === form.name));
    byId('record').classList.toggle('is-hex', form.name === 'hex');
    const note = byId('record-note');
    const cut = found.record.cut ? 'Only the first part is shown; the command shows all of it.' : '';
    put(note, form.error ?? cut);
    note.hidden = !note.textContent;
    for (const name of ['key', 'value']) {
      const place = byId(`record-${name}`);
      if (form.error || form[name] === null || form[name] === undefined) place.replaceChildren(make('span', form.error ? '' : 'null', 'records-null'));
      else put(place, form[name]);
    }
  }

  function showPairs(table, pairs, none) {
    const rows = pairs.map(([name, value]) => {
      const row = document.createElement('tr');
      const head = make('th', name);
      head.scope = 'row';
      const cell = document.createElement('td');
      putValue(cell, value);
      row.append(head, cell);
      return row;
    });
    if (!rows.length && none) {
      const row = document.createElement('tr');
      row.append(make('td', none, 'records-null'));
      rows.push(row);
    }
    table.tBodies[0].replaceChildren(...rows);
  }

  // ---- the address: what is shown stands in it, so that it can be kept

  function remember(state) {
    const url = new URL(location.href);
    url.search = new URLSearchParams(state).toString();
    history.replaceState(history.state, '', url);
  }

  async function recall() {
    const state = new URLSearchParams(location.search);
    const topic = state.get('topic');
    if (topic === null || !partitions.has(topic)) return;
    field('topic').value = topic;
    showNumbers();
    field('partition').value = state.get('partition') ?? '0';
    const offset = state.get('offset');
    if (offset !== null && /^[0-9]{1,19}$/.test(offset)) {
      field('from').value = 'offset';
      field('where').value = offset;
      showWhere();
    }
    await show(firstQuestion());
    if (offset !== null) await showRecord(topic, field('partition').value, offset);
  }

  form.addEventListener('submit', (event) => {
    event.preventDefault();
    remember({ topic: field('topic').value, partition: field('partition').value });
    show(firstQuestion());
  });
  field('topic').addEventListener('change', showNumbers);
  field('from').addEventListener('change', showWhere);
  byId('records-older').addEventListener('click', () => {
    const { until, ...others } = filters();
    show({ ...others, to_offset: shown.first, last: field('limit').value }, 'older');
  });
  byId('records-newer').addEventListener('click', () => show({ ...filters(), offset: shown.next, limit: field('limit').value }, 'newer'));

  async function follow() {
    if (byId('records-follow').checked && !waiting && document.visibilityState === 'visible') {
      if (shown === null) await show(firstQuestion());
      else await show({ ...filters(), offset: shown.next, limit: '500' }, 'follow');
    }
    setTimeout(follow, POLL_MS);
  }

  // The report shows a partition: so do its records, unless they are shown already.
  function choose() {
    if (wanted === null || !partitions.has(wanted.topic)) return;
    const { topic, partition } = wanted;
    wanted = null;
    if (shown !== null && field('topic').value === topic && field('partition').value === String(partition)) return;
    field('topic').value = topic;
    showNumbers();
    field('partition').value = String(partition);
    show(firstQuestion());
  }

  document.addEventListener('tidelog:view', (event) => {
    const one = event.detail.partition;
    wanted = one && one.state === 'live' ? { topic: one.topic, partition: one.partition } : null;
    choose();
  });

  function addLink() {
    const link = make('a', 'Records');
    link.href = '#records';
    link.addEventListener('click', (event) => {
      event.preventDefault(); // the fragment belongs to the report
      byId('records').scrollIntoView();
    });
    document.querySelector('nav')?.append(link);
  }

  function begin() {
    addLink();
    loadPartitions().then(recall).then(choose).catch((error) => say(error.message, true));
    setInterval(() => loadPartitions().catch(() => {}), 10 * POLL_MS);
    setTimeout(follow, POLL_MS);
  }

  showWhere();
  document.addEventListener('DOMContentLoaded', begin); // the report's scripts come later: its links, `parsed` and `isDate`
})();
