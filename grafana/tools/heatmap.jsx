// The heatmap is the one panel that is not in @grafana/ui: drawn here, with Grafana's colours, from the same buckets.

import React from 'react';
import { getValueFormat } from '@grafana/data';

const SCALE = ['#2b1a0b', '#5c2e0b', '#94450c', '#cc6210', '#f08a3c', '#ffb87a', '#ffe3c7'];

/** Per-bucket counts from cumulative ones, lowest bucket first. */
function buckets(results) {
  const sorted = results.flatMap((r) => r.series)
    .map((s) => ({ le: Number(s.labels.le === '+Inf' ? Infinity : s.labels.le), times: s.times, values: s.values }))
    .sort((a, b) => a.le - b.le);
  return sorted.map((row, at) => ({
    ...row, values: row.values.map((v, i) => Math.max(0, (v ?? 0) - (at ? (sorted[at - 1].values[i] ?? 0) : 0))),
  }));
}

export function Heatmap({ panel, results, width, height, theme, from, to }) {
  const all = buckets(results);
  const used = all.map((row) => row.values.some((v) => v > 1e-9));
  const rows = all.slice(Math.max(0, used.indexOf(true) - 1), used.lastIndexOf(true) + 2);
  const most = Math.max(...rows.flatMap((row) => row.values));
  const [left, bottom, right] = [76, 44, 8];
  const [w, h] = [width - left - right, height - bottom];
  const count = rows[0].times.length;
  const merge = Math.max(1, Math.ceil(count / (w / 9)));
  const columns = Math.ceil(count / merge);
  const format = getValueFormat(panel.options.yAxis.unit);
  const text = (value) => { const f = format(value, 2); return value === Infinity ? '+Inf' : `${Number(f.text)}${f.suffix ?? ''}`; };
  const cells = rows.flatMap((row, y) => Array.from({ length: columns }, (_, x) => {
    const part = row.values.slice(x * merge, (x + 1) * merge);
    const value = part.reduce((a, b) => a + b, 0) / part.length;
    if (value <= 1e-9) return null;
    const color = SCALE[Math.min(SCALE.length - 1, Math.floor(Math.sqrt(value / most) * SCALE.length))];
    const tall = h / rows.length;
    return <rect key={`${x}-${y}`} x={left + (x * w) / columns} y={h - (y + 1) * tall} fill={color}
      width={w / columns - 1} height={Math.max(1, tall - 1)} />;
  }));
  const ink = { fill: theme.colors.text.primary, fontSize: 12, fontFamily: theme.typography.fontFamily };
  const every = Math.ceil(rows.length / (h / 18));
  const ticks = 6;
  return (
    <svg width={width} height={height}>
      {cells}
      {rows.map((row, y) => y % every === 0 && (
        <text key={y} x={left - 8} y={h - (y + 0.5) * (h / rows.length) + 4} textAnchor="end" {...ink}>{text(row.le)}</text>
      ))}
      {Array.from({ length: ticks }, (_, i) => {
        const at = new Date(from + ((to - from) * (i + 0.5)) / ticks);
        return <text key={i} x={left + (w * (i + 0.5)) / ticks} y={h + 17} textAnchor="middle" {...ink}>{at.toISOString().slice(11, 16)}</text>;
      })}
      {SCALE.map((color, i) => <rect key={color} x={left + i * 26} y={h + 27} width={25} height={9} fill={color} />)}
      <text x={left + SCALE.length * 26 + 8} y={h + 36} {...ink} fill={theme.colors.text.secondary}>0 to {most.toPrecision(2)}/s</text>
    </svg>
  );
}
