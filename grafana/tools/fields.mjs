// Answers -> data frames with Grafana's display processors, and the dashboard's defaults and overrides on each field.

import { FieldType, getDisplayProcessor, getFieldDisplayName } from '@grafana/data';

function put(config, path, value) {
  const [head, ...rest] = path.split('.');
  if (rest.length === 0) config[head] = value;
  else put((config[head] ??= {}), rest.join('.'), value);
}

/** Set config, colour index and display of every field of the frames. */
export function dress(frames, fieldConfig, theme) {
  let seriesIndex = 0;
  for (const frame of frames) {
    for (const field of frame.fields) {
      const config = structuredClone(fieldConfig.defaults ?? {});
      const name = getFieldDisplayName(field, frame, frames);
      config.displayNameFromDS = field.config.displayNameFromDS;
      for (const { matcher, properties } of fieldConfig.overrides ?? []) {
        if (matcher.options === name) properties.forEach(({ id, value }) => put(config, id, value));
      }
      if (field.type === FieldType.time) {
        field.config = {};
      } else {
        const steps = config.thresholds?.steps.map((step) => ({ ...step, value: step.value ?? -Infinity }));
        if (steps) config.thresholds = { ...config.thresholds, steps };
        field.config = config;
        if (field.type === FieldType.number) field.state = { ...field.state, seriesIndex: seriesIndex++ };
      }
      range(field);
      field.display = getDisplayProcessor({ field, theme, timeZone: 'utc' });
    }
  }
  return frames;
}

function range(field) {
  if (field.type !== FieldType.number) return;
  const known = field.values.filter((v) => v !== null && Number.isFinite(v));
  const low = field.config.min ?? Math.min(...known, 0);
  const high = field.config.max ?? Math.max(...known, low);
  field.state = { ...field.state, range: { min: low, max: high, delta: high - low || 1 } };
}

/** One frame a series. */
export function seriesFrames(results) {
  return results.flatMap((result) => result.series.map((series) => ({
    refId: result.refId, length: series.times.length, name: series.name,
    fields: [
      { name: 'Time', type: FieldType.time, config: {}, values: series.times },
      { name: 'Value', type: FieldType.number, labels: series.labels, values: series.values,
        config: { displayNameFromDS: series.name } },
    ],
  })));
}

/** What merge and organize make of instant answers in table format: one row for each set of labels. */
export function tableFrame(panel, results) {
  const organize = panel.transformations.find((t) => t.id === 'organize').options;
  const rows = new Map();
  for (const result of results) {
    for (const series of result.series) {
      const key = JSON.stringify(series.labels);
      if (!rows.has(key)) rows.set(key, { ...series.labels });
      rows.get(key)[`Value #${result.refId}`] = series.values[0];
    }
  }
  const sort = panel.options.sortBy?.[0];
  const source = Object.entries(organize.renameByName).find(([, shown]) => shown === sort?.displayName)?.[0];
  const sorted = [...rows.values()].sort((a, b) => (b[source] ?? -1) - (a[source] ?? -1));
  const names = Object.keys(organize.renameByName).sort((a, b) => organize.indexByName[a] - organize.indexByName[b]);
  return {
    length: sorted.length,
    fields: names.map((name) => ({
      name: organize.renameByName[name], config: {}, values: sorted.map((row) => row[name] ?? null),
      type: name.startsWith('Value #') ? FieldType.number : FieldType.string,
    })),
  };
}
