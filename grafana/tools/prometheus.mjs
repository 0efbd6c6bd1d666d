// Asks Prometheus what Grafana would ask for a dashboard: variables and windows substituted, one answer a target.

const SCRAPE = 5; // seconds; Grafana takes it from the data source's settings

/** Replace dashboard variables (all set to All) and Grafana's windows. */
export function substitute(expr, rangeSeconds, step) {
  const rate = Math.max(step + SCRAPE, 4 * SCRAPE);
  return expr
    .replaceAll('$__rate_interval', `${rate}s`)
    .replaceAll('$__range', `${rangeSeconds}s`)
    .replaceAll(/"\$(job|instance|provider|model|tool)"/g, '".+"');
}

async function ask(base, path, params) {
  const answer = await fetch(`${base}/api/v1/${path}?${new URLSearchParams(params)}`);
  const body = await answer.json();
  if (body.status !== 'success') throw new Error(`${path} ${params.query}: ${body.error}`);
  return body.data;
}

function legend(format, labels) {
  if (!format || format === '__auto') return Object.values(labels).filter((v) => v !== labels.__name__).join(' ') || 'Value';
  return format.replaceAll(/\{\{\s*(\w+)\s*\}\}/g, (_, name) => labels[name] ?? '');
}

/** Answer one target: series of {name, labels, times (ms), values}, and exemplars. */
async function target(base, query, window) {
  const expr = substitute(query.expr, window.to - window.from, window.step);
  if (query.instant) {
    const data = await ask(base, 'query', { query: expr, time: window.to });
    const rows = data.resultType === 'scalar' ? [{ metric: {}, value: data.result }] : data.result;
    return { refId: query.refId, format: query.format, exemplars: [], series: rows.map((row) => one(query, row, [row.value])) };
  }
  const data = await ask(base, 'query_range', { query: expr, start: window.from, end: window.to, step: window.step });
  const found = query.exemplar ? await ask(base, 'query_exemplars', { query: expr, start: window.from, end: window.to }) : [];
  const exemplars = found.flatMap((s) => s.exemplars.map((e) => ({ time: e.timestamp * 1000, value: Number(e.value) })));
  const times = [];
  for (let at = window.from; at <= window.to; at += window.step) times.push(at);
  return {
    refId: query.refId, format: query.format, exemplars,
    series: data.result.map((row) => {
      const at = new Map(row.values);
      return one(query, row, times.map((time) => [time, at.get(time) ?? null]));
    }),
  };
}

function one(query, row, points) {
  return {
    name: legend(query.legendFormat, row.metric), labels: row.metric,
    times: points.map(([time]) => time * 1000),
    values: points.map(([, value]) => (value === null ? null : Number(value))),
  };
}

/** Answer every target and annotation of a dashboard. */
export async function answers(base, dashboard, rangeSeconds) {
  const now = Date.now() / 1000;
  const windowOf = (least) => {
    const step = Math.max(SCRAPE, least, Math.ceil(rangeSeconds / 240 / SCRAPE) * SCRAPE);
    const to = Math.floor(now / step) * step;
    return { from: to - Math.floor(rangeSeconds / step) * step, to, step };
  };
  const window = windowOf(SCRAPE);
  const panels = {};
  for (const panel of dashboard.panels.filter((p) => p.targets)) {
    panels[panel.id] = await Promise.all(panel.targets.map((query) => target(base, query, windowOf(panel.interval === '1m' ? 60 : SCRAPE))));
  }
  const annotations = [];
  for (const mark of dashboard.annotations.list) {
    const data = await target(base, { ...mark, refId: mark.name }, windowOf(60));
    for (const { times, values } of data.series) {
      // As Grafana does: neighbouring points are one mark.
      times.forEach((time, at) => values[at] > 0 && !(values[at - 1] > 0) && annotations.push({ time, color: mark.iconColor }));
    }
  }
  return { panels, annotations, from: window.from * 1000, to: window.to * 1000 };
}
