'use strict';
// Charts by Apache ECharts, each in a figure with its table. Tooltips are elements: names stay text.

const charts = new Set();
const opened = new Set(); // names of tables that are open, kept while the page is open
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const shade = (at) => colour('c' + (at % 9));

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) draw(entry.target.chart);
}, { rootMargin: '300px' });

/** A chart with a caption and its figures as a table; `option()` answers ECharts' option. */
function figure(name, caption, height, option, tableOf, hint = '') {
  const place = make('div', { class: 'chart', role: 'img', style: `height:${height}px`, 'aria-label': `${name}; its figures are in the table below` });
  const details = make('details', { open: opened.has(name), ontoggle: fill }, make('summary', {}, `Table: ${name}`));
  function fill() {
    if (details.open) opened.add(name); else opened.delete(name);
    if (details.open && details.children.length < 2) details.append(tableOf());
  }
  if (details.open) details.append(tableOf());
  place.chart = { place, option, drawn: null };
  charts.add(place.chart);
  seen.observe(place);
  return make('figure', { 'data-name': name }, make('figcaption', {}, caption, hint && make('small', {}, ' ' + hint)), place, details);
}

function draw(chart) {
  if (chart.drawn || !chart.place.isConnected) return;
  chart.drawn = echarts.init(chart.place, null, { renderer: 'svg' });
  chart.drawn.on('click', (event) => {
    const href = event.data && event.data.href;
    if (href) location.hash = href;
  });
  show(chart);
}

function show(chart) {
  chart.drawn.setOption({
    animation: false,
    useUTC: true, // as all times of the page are
    textStyle: { fontFamily: getComputedStyle(document.body).fontFamily, color: colour('ink') },
    color: Array.from({ length: 9 }, (_, at) => shade(at)),
    ...chart.option(),
  }, true);
}

const redraw = () => charts.forEach((chart) => chart.drawn && show(chart));
const forget = () => {
  charts.forEach((chart) => { seen.unobserve(chart.place); if (chart.drawn) chart.drawn.dispose(); });
  charts.clear();
};
addEventListener('resize', () => charts.forEach((chart) => chart.drawn && chart.drawn.resize()));
addEventListener('beforeprint', () => { charts.forEach(draw); redraw(); charts.forEach((chart) => chart.drawn && chart.drawn.resize()); });
addEventListener('afterprint', redraw);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);

/** What a pointer is told: a name, then lines of names and values. */
function tip(title, lines) {
  return make('div', { class: 'tip' }, make('b', {}, shown(title)), lines.map(([name, value]) => make('div', {}, make('span', {}, name + ' '), cell(value))));
}

const tooltip = (formatter, trigger = 'item') => ({
  trigger, formatter, confine: true, backgroundColor: colour('card'), borderColor: colour('line'), textStyle: { color: colour('ink') },
});
const axisLook = () => ({
  axisLabel: { color: colour('soft'), hideOverlap: true }, axisLine: { lineStyle: { color: colour('line') } }, splitLine: { lineStyle: { color: colour('line') } },
});
const legend = () => ({ type: 'scroll', bottom: 0, textStyle: { color: colour('soft') }, formatter: shown, pageTextStyle: { color: colour('soft') } });

/**
 * Bars over time, stacked by series: [{ name, values: [...] }], a value for each step of `width` milliseconds from `first` on.
 * Steps are categories: ECharts stacks bars of a time axis by their number, not by their time.
 */
function timeBars(series, format, width, first, steps) {
  const starts = Array.from({ length: steps }, (_, at) => plus(first, times(at, width)));
  const inDays = width >= 864e5 || steps * width > 20 * 864e5;
  const short = (at) => timePart(starts[at], ...(!at && width < 864e5 ? ['date', 'clock'] : inDays ? ['date'] : steps * width > 864e5 ? ['day', 'clock'] : ['clock']));
  return {
    grid: { left: 14, right: 36, top: 12, bottom: series.length > 1 ? 34 : 8, containLabel: true },
    legend: series.length > 1 ? legend() : { show: false },
    tooltip: { ...tooltip((events) => {
      const told = events.filter((event) => event.value).map((event) => [event.seriesName, format(series[event.seriesIndex].values[event.dataIndex])]).reverse();
      const start = starts[events[0].dataIndex];
      return tip(`${timePart(start, 'date', 'clock')} to ${timePart(plus(start, width), 'date', 'clock')}`, told.length ? told : [['nothing', '']]);
    }, 'axis'), axisPointer: { type: 'shadow' } },
    xAxis: { type: 'category', data: starts.map((_, at) => short(at)), ...axisLook(), splitLine: { show: false }, axisTick: { show: false } },
    yAxis: { type: 'value', ...axisLook(), axisLabel: { color: colour('soft'), formatter: (value) => rounded(format, value) } },
    series: series.map((one) => ({ type: 'bar', stack: 'all', name: one.name, data: one.values.map(Number), barMaxWidth: 90, barCategoryGap: steps > 60 ? '8%' : '15%' })),
  };
}

/** A value on an axis: 300 kB, not 300.0 kB. */
const rounded = (format, value) => format(value).replace(/\.0+(?= |$)/, '');

/** Bars of categories: [{ name, value, tip, href, bad }]. */
function bars(items, format, horizontal = false) {
  const category = { type: 'category', data: items.map((item) => shown(item.name)), ...axisLook(), inverse: horizontal, axisTick: { show: false }, axisLabel: { color: colour('soft'), width: horizontal ? 150 : undefined, overflow: 'truncate', hideOverlap: true } };
  const value = { type: 'value', ...axisLook(), splitNumber: horizontal && innerWidth < 640 ? 3 : 5, axisLabel: { color: colour('soft'), formatter: (each) => rounded(format, each), hideOverlap: true } };
  return {
    grid: { left: 14, right: horizontal ? 36 : 20, top: 12, bottom: 8, containLabel: true },
    tooltip: tooltip((event) => tip(items[event.dataIndex].name, items[event.dataIndex].tip)),
    xAxis: horizontal ? value : category,
    yAxis: horizontal ? category : value,
    series: [{ type: 'bar', barMaxWidth: 28, data: items.map((item) => ({ value: Number(item.value), href: item.href, itemStyle: { color: item.bad ? colour('bad') : shade(0) } })) }],
  };
}

/**
 * Lanes over one axis: blocks from one number to another, and marks across all lanes.
 * items: { lane, from, to, colour(), opacity, height, least (its width in pixels), title, tip, href }; marks: { at, name, shade }.
 * All are as far from `origin` as they are drawn: numbers near zero are exact. On an axis of time, the origin is 0.
 */
function lanes(names, items, marks, { axis = 'value', origin = 0, min, max, format }) {
  const label = (value) => (Number.isInteger(value) ? format(plus(origin, value)) : '');
  return {
    grid: { left: 14, right: 24, top: marks.length ? 8 + 15 * marks.length : 12, bottom: 8, containLabel: true },
    tooltip: tooltip((event) => (event.componentType === 'markLine' ? tip(event.data.name, [['', label(event.data.xAxis)]]) : tip(items[event.dataIndex].title, items[event.dataIndex].tip))),
    xAxis: { type: axis, min, max, ...axisLook(), axisLabel: { color: colour('soft'), hideOverlap: true, ...(axis === 'value' ? { formatter: label } : {}) }, minInterval: 1 },
    yAxis: { type: 'category', data: names.map(shown), inverse: true, ...axisLook(), axisTick: { show: false }, axisLabel: { color: colour('soft'), width: 120, overflow: 'truncate' } },
    series: [{
      type: 'custom',
      encode: { x: [1, 2], y: 0 },
      data: items.map((item) => ({ value: [item.lane, item.from, item.to], href: item.href })),
      renderItem: (place, api) => block(items[place.dataIndex], api, place.coordSys),
      markLine: {
        symbol: 'none', silent: false, lineStyle: { type: 'solid', width: 1.5 },
        data: marks.map((mark, at) => ({ xAxis: mark.at, name: mark.name, lineStyle: { color: colour(mark.shade) }, label: {
          formatter: mark.name, color: colour(mark.shade), position: 'start', distance: 3 + at * 15, align: mark.at > (min + max) / 2 ? 'right' : 'left',
        } })),
      },
    }],
  };
}

function block(item, api, place) {
  const [left, middle] = api.coord([api.value(1), api.value(0)]);
  const [right] = api.coord([api.value(2), api.value(0)]);
  const height = Math.max(api.size([0, 1])[1] * 0.72, 2) * (item.height ?? 1);
  const width = Math.max(right - left - 0.7, item.least ?? 1.5);
  const shape = { x: Math.min(left, place.x + place.width - width), y: middle - height / 2, width, height };
  return { type: 'rect', shape, style: { fill: item.colour(), opacity: item.opacity ?? 1 }, emphasis: { style: { opacity: 1, stroke: colour('ink') } } };
}
