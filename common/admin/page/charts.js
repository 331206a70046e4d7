'use strict';
// Elements, numbers for people, and the line chart. view.js says what is drawn.

const kSeconds = 120;  // that a chart shows

// make('td', {class: 'text'}, 'a', child): an element. Strings become text, never HTML.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function draw(tag, attributes = {}, text = '') {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== '') element.textContent = text;
  return element;
}

const isNumber = (value) => typeof value === 'number' && isFinite(value);

function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : 2);
}
// 0 → "0", 1234 → "1.23 k". `step`: 1000, or 1024 with its prefixes.
function scaled(value, step, prefixes, unit) {
  if (!isNumber(value)) return '–';
  let index = 0;
  while (Math.abs(value) >= step * 0.9995 && index + 1 < prefixes.length) {
    value /= step;
    ++index;
  }
  const text = index === 0 && Number.isInteger(value) ? String(value) : digits(value);
  const suffix = prefixes[index] + unit;
  return suffix ? `${text} ${suffix}` : text;
}
const count = (value) => scaled(value, 1000, ['', 'k', 'M', 'G', 'T'], '');
const bytes = (value) => scaled(value, 1024, ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi'], 'B');
const percent = (value) => isNumber(value) ? `${digits(value * 100)} %` : '–';
const plain = (value) => isNumber(value) ? digits(value) : '–';
const duration = (ns) => scaled(ns, 1000, ['ns', 'µs', 'ms', 's'], '');
// Of an axis: "2.00 M" becomes "2 M".
const shortened = (text) => text.replace(/(\.\d*?)0+(?= |$)/, '$1').replace(/\.(?= |$)/, '');
function span(seconds) {
  if (!isNumber(seconds)) return '–';
  const parts = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const first = Math.max(0, parts.findIndex(([size]) => seconds >= size));
  return parts.slice(seconds < 1 ? 3 : first, first + 2)
      .map(([size, name], index) => `${Math.floor((index ? seconds % parts[first][0] : seconds) / size)} ${name}`)
      .join(' ');
}

// Ticks from 0 to at least `top`, at most 5. `unit`: what "1" is on the axis, such as 1024.
function linearTicks(top, unit) {
  const power = unit * 10 ** Math.floor(Math.log10(top / unit));
  const step = [0.2, 0.25, 0.5, 1, 2, 2.5].map((factor) => factor * power).find((size) => top / size <= 4.001);
  const ticks = [];
  for (let tick = 0; tick < top + step * 0.999; tick += step) ticks.push(tick);
  return ticks;
}
function logTicks(low, top) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(top)); ++power) ticks.push(10 ** power);
  return ticks.length > 1 ? ticks : [ticks[0], ticks[0] * 10];
}

// A card with lines over the last kSeconds. `series`: [{name, color, values: [[age in seconds, value or null]]}]
class LineChart {
  constructor(parent, {title, unit, format, isLog = false, isBinary = false, top = null}) {
    Object.assign(this, {format, isLog, isBinary, top, series: [], hover: null});
    this.legend = make('div', {class: 'legend'});
    this.svg = draw('svg', {height: 150, role: 'img', 'aria-label': title});
    this.tip = make('div', {class: 'tip', hidden: ''});
    this.card = make('div', {class: 'card', hidden: ''},
        make('div', {class: 'top'}, make('h2', {}, title), make('span', {class: 'unit'}, unit)),
        this.legend, this.svg, this.tip);
    parent.append(this.card);
    this.svg.addEventListener('pointermove', (event) => {
      this.hover = event.clientX - this.svg.getBoundingClientRect().left;
      this.render();
    });
    this.svg.addEventListener('pointerleave', () => {
      this.hover = null;
      this.render();
    });
  }

  // Hides the card while there is nothing to show.
  show(series) {
    this.series = series.filter(({values}) => values.some(([, value]) => isNumber(value)));
    this.card.hidden = this.series.length === 0;
    if (!this.card.hidden) this.render();
  }

  ticks() {
    const all = this.series.flatMap(({values}) => values.map(([, value]) => value)).filter(isNumber);
    const top = Math.max(...all);
    if (!this.isLog) {
      const unit = this.isBinary && top > 0 ? 1024 ** Math.floor(Math.log(top) / Math.log(1024)) : 1;
      return linearTicks(this.top ?? (top > 0 ? top : 1), unit);
    }
    const low = Math.min(...all.filter((value) => value > 0));
    return isFinite(low) ? logTicks(low, top) : [1, 10];
  }

  render() {
    const width = this.svg.clientWidth || 360, height = 150;
    const left = 54, right = width - 4, bottom = height - 20, head = 8;
    const ticks = this.ticks();
    const scale = (value) => this.isLog ? Math.log10(Math.max(value, ticks[0])) : value;
    const low = scale(ticks[0]), high = scale(ticks.at(-1));
    const x = (age) => right - (right - left) * age / kSeconds;
    const y = (value) => bottom - (bottom - head) * (scale(value) - low) / (high - low);
    this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.svg.replaceChildren();
    for (const tick of ticks) {
      this.svg.append(
          draw('line', {class: tick === ticks[0] ? 'base' : 'grid', x1: left, x2: right, y1: y(tick), y2: y(tick)}),
          draw('text', {x: left - 8, y: y(tick) + 4, 'text-anchor': 'end'}, shortened(this.format(tick))));
    }
    for (const [age, text, anchor] of [[120, '−2 min', 'start'], [60, '−1 min', 'middle'], [0, 'now', 'end']]) {
      this.svg.append(draw('text', {x: x(age), y: height - 4, 'text-anchor': anchor}, text));
    }
    for (const {color, values} of this.series) {
      let path = '', isDown = false;
      for (const [age, value] of values) {
        if (isNumber(value)) path += `${isDown ? 'L' : 'M'}${x(age).toFixed(1)} ${y(value).toFixed(1)}`;
        isDown = isNumber(value);
      }
      this.svg.append(draw('path', {class: 'series', d: path, stroke: `var(--c-${color})`}));
    }
    this.legend.replaceChildren(...this.series.map(({name, color, values}) => make('span', {},
        swatch(`var(--c-${color})`), name, make('b', {}, this.format(values.at(-1)[1])))));
    this.renderTip(x, left, right, head, bottom);
  }

  renderTip(x, left, right, head, bottom) {
    this.tip.hidden = this.hover === null || this.hover < left;
    if (this.tip.hidden) return;
    const ages = this.series[0].values.map(([age]) => age);
    const distance = (age) => Math.abs(x(age) - this.hover);
    const index = ages.reduce((best, age, at) => distance(age) < distance(ages[best]) ? at : best, 0);
    const place = x(ages[index]);
    this.svg.append(draw('line', {class: 'cross', x1: place, x2: place, y1: head, y2: bottom}));
    this.tip.replaceChildren(make('div', {class: 'quiet'}, `${Math.round(ages[index])} s ago`),
        ...this.series.map(({name, color, values}) => make('div', {},
            make('span', {}, swatch(`var(--c-${color})`), name), make('b', {}, this.format(values[index]?.[1])))));
    this.tip.style.top = '58px';
    this.tip.style.left = place > (left + right) / 2 ? '' : `${place + 26}px`;
    this.tip.style.right = place > (left + right) / 2 ? `${right - place + 30}px` : '';
  }
}

function swatch(color) {
  const key = make('span', {class: 'key'});
  key.style.background = color;
  return key;
}
