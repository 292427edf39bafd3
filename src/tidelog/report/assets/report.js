'use strict';
// The frame: what the URL's fragment asks for, search, and new facts from a server.
//   #/                    overview        #/topic/<name>              one topic
//   #/<section>           a part of it    #/partition/<directory>     one partition; @<number> behind it tells the root

const main = document.getElementById('main');
const { live, figure: alone, view: shownView } = document.body.dataset; // a server's facts; one chart, and where it is

function render() {
  const [, kind = '', name = ''] = (alone ? shownView : location.hash).split('/');
  const part = SECTIONS.find(([id]) => id === kind);
  forget();
  let view;
  if (kind === 'topic') view = topicView(decoded(name));
  else if (kind === 'partition') view = partitionView(name);
  else view = overview();
  main.replaceChildren(alone ? only(view) : view);
  document.title = `${alone ?? main.querySelector('h1').textContent} – tidelog report`;
  document.querySelectorAll('nav a').forEach((each) => (each.hash === (location.hash || '#/') ? each.setAttribute('aria-current', 'page') : each.removeAttribute('aria-current')));
  document.dispatchEvent(new CustomEvent('tidelog:view', { detail: { kind: part ? '' : kind, partition: kind === 'partition' ? model.partitions.find((one) => one.slug === name) ?? null : null } }));
  return part;
}

/** The chart that the page is for. */
const only = (view) => [...view.querySelectorAll('figure')].find((each) => each.dataset.name === alone) ?? make('p', { class: 'none' }, 'There is nothing to draw.');

function decoded(name) {
  try { return decodeURIComponent(name); } catch { return name; }
}

function go() {
  const part = render();
  if (part) document.getElementById(part[0])?.scrollIntoView();
  else scrollTo(0, 0);
}

// Search

const search = document.getElementById('search');
const found = document.getElementById('found');
const MOST = 30;

function look() {
  const words = search.value.trim().toLowerCase();
  const matches = (name) => name.toLowerCase().includes(words);
  const topics = model.topics.filter((one) => matches(one.topic)).map((one) => [one.href, one.topic, 'topic']);
  const parts = model.partitions.filter((one) => matches(one.name)).map((one) => [one.href, one.name, 'partition']);
  const groups = [...new Set(model.groups.map((one) => one.group))].filter(matches).map((name) => ['#/groups', name, 'group']);
  const list = [...topics, ...groups, ...parts];
  found.replaceChildren(...list.slice(0, MOST).map(([href, name, kind]) => make('li', {}, make('a', { href }, make('bdi', {}, shown(name)), ' ', make('small', {}, kind)))),
    ...(list.length > MOST ? [make('li', { class: 'none' }, `and ${count(list.length - MOST)} more`)] : list.length ? [] : [make('li', { class: 'none' }, 'no match')]));
  found.hidden = !words;
}

search.addEventListener('input', look);
search.addEventListener('keydown', (event) => {
  if (event.key === 'Enter') found.querySelector('a')?.click();
  if (event.key === 'ArrowDown') { event.preventDefault(); found.querySelector('a')?.focus(); }
  if (event.key === 'Escape') { search.value = ''; found.hidden = true; }
});
found.addEventListener('click', () => { search.value = ''; found.hidden = true; });
document.addEventListener('click', (event) => { if (!found.contains(event.target) && event.target !== search) found.hidden = true; });

// Facts that a server has anew

const PAUSE_MS = 3000;

async function refresh(before) {
  let text = before;
  try {
    const answer = await fetch(live, { cache: 'no-store' });
    if (answer.ok) text = await answer.text();
    about(answer.ok ? '' : `the server answered ${answer.status}`);
  } catch {
    about('the server does not answer');
  }
  const changed = (one) => one.replace(/"now_ms":\d+/, '');
  if (changed(text) !== changed(before)) {
    facts = parsed(text);
    const at = scrollY;
    understand();
    render();
    scrollTo(0, at);
  }
  setTimeout(refresh, PAUSE_MS, text);
}

function about(trouble = '') {
  const words = live ? `Looked at ${time(facts.now_ms)} UTC and again every few seconds` : `Made at ${time(facts.now_ms)} UTC`;
  document.getElementById('about').textContent = `${words} by tidelog ${facts.tidelog}${trouble && ': ' + trouble}. Charts by Apache ECharts (Apache-2.0).`;
}

document.querySelector('nav').append(...[['', 'Overview'], ...SECTIONS].map(([id, title]) => make('a', { href: '#/' + id }, title)));
addEventListener('hashchange', go);
understand();
about();
go();
if (live) refresh(document.getElementById('facts').textContent);
