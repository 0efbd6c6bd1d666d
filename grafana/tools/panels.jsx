// One component a kind of panel, each made of Grafana's own.

import React from 'react';
import { fieldReducers, formattedValueToString, reduceField, VizOrientation } from '@grafana/data';
import { BarGauge, BigValue, Table, TimeSeries, VizRepeater } from '@grafana/ui';
import { dress, seriesFrames, tableFrame } from './fields.mjs';
import { Heatmap } from './heatmap.jsx';

function Empty({ panel }) {
  const style = { display: 'flex', height: '100%', alignItems: 'center', justifyContent: 'center', opacity: 0.65, fontSize: 15, textAlign: 'center' };
  return <div style={style}>{panel.fieldConfig.defaults.noValue}</div>;
}

function Stat({ panel, results, width, height, theme }) {
  const { options } = panel;
  const frames = dress(seriesFrames(results), panel.fieldConfig, theme);
  if (frames.length === 0) return <Empty panel={panel} />;
  const each = width / frames.length;
  return (
    <div style={{ display: 'flex' }}>
      {frames.map((frame) => {
        const field = frame.fields[1];
        const calc = options.reduceOptions.calcs[0];
        const value = { ...field.display(reduceField({ field, reducers: [calc] })[calc]), title: frame.name };
        const y = { ...field, values: field.values.map((v) => v ?? null) };
        const sparkline = options.graphMode === 'area' ? { y, x: frame.fields[0] } : undefined;
        return <BigValue key={frame.name} value={value} width={each} height={height} theme={theme} sparkline={sparkline}
          colorMode={options.colorMode} graphMode={options.graphMode} justifyMode={options.justifyMode} textMode={options.textMode} disableWideLayout={!options.wideLayout} />;
      })}
    </div>
  );
}

function Ranking({ panel, results, width, height, theme }) {
  const { options } = panel;
  const frames = dress(seriesFrames(results), panel.fieldConfig, theme);
  if (frames.length === 0) return <Empty panel={panel} />;
  const most = panel.fieldConfig.defaults.max ?? (Math.max(...frames.map((f) => f.fields[1].values[0]), 0) || 1);
  const values = frames.map((frame) => {
    const field = frame.fields[1];
    field.config = { ...field.config, max: most, min: 0 };
    return { field, display: { ...field.display(field.values[0]), title: frame.name, percent: field.values[0] / most } };
  });
  const size = { minVizHeight: options.minVizHeight, maxVizHeight: options.maxVizHeight, minVizWidth: 8 };
  return (
    <VizRepeater width={width} height={height} orientation={VizOrientation.Horizontal} source={values} getValues={() => values}
      getAlignmentFactors={(vs) => ({ title: longest(vs.map((v) => v.display.title)), text: longest(vs.map((v) => formattedValueToString(v.display))) })}
      itemSpacing={6} renderCounter={0} autoGrid={false} {...size}
      renderValue={({ value, width: w, height: h, alignmentFactors }) => (
        <BarGauge value={value.display} field={value.field.config} display={value.field.display} width={w} height={h} theme={theme} itemSpacing={6}
          orientation={VizOrientation.Horizontal} displayMode={options.displayMode} showUnfilled={options.showUnfilled} alignmentFactors={alignmentFactors}
          namePlacement={options.namePlacement} valueDisplayMode={options.valueMode} lcdCellWidth={12} text={{}} />
      )} />
  );
}

const longest = (texts) => texts.reduce((a, b) => (b.length > a.length ? b : a), '');

function marks(u, theme, annotations, exemplars) {
  const { ctx, bbox } = u;
  ctx.save();
  for (const { time, color } of annotations) {
    const x = u.valToPos(time, 'x', true);
    if (x < bbox.left) continue;
    ctx.strokeStyle = theme.visualization.getColorByName(color);
    ctx.setLineDash([4, 4]);
    ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
  }
  const { scale } = u.series[1];
  ctx.setLineDash([]);
  ctx.fillStyle = theme.visualization.getColorByName('blue');
  for (const { time, value } of exemplars) {
    const [x, y] = [u.valToPos(time, 'x', true), u.valToPos(value, scale, true)];
    if (y < bbox.top || y > bbox.top + bbox.height || x < bbox.left) continue;
    ctx.globalAlpha = 0.75;
    ctx.beginPath(); ctx.moveTo(x, y - 4); ctx.lineTo(x + 4, y); ctx.lineTo(x, y + 4); ctx.lineTo(x - 4, y); ctx.fill();
  }
  ctx.restore();
}

function Graph({ panel, results, width, height, theme, from, to, annotations }) {
  const frames = dress(seriesFrames(results), panel.fieldConfig, theme);
  if (frames.length === 0) return <Empty panel={panel} />;
  for (const frame of frames) {
    const field = frame.fields[1];
    const calcs = panel.options.legend.calcs ?? [];
    const values = calcs.length ? reduceField({ field, reducers: calcs }) : {};
    const shown = calcs.map((calc) => ({ ...field.display(values[calc]), title: fieldReducers.get(calc).name }));
    field.config = { ...field.config, custom: { ...field.config.custom, hideFrom: {} } };
    field.state.calcs = values;
    field.shown = shown;
  }
  const exemplars = results.flatMap((r) => r.exemplars);
  const legend = { ...panel.options.legend };
  const hooked = new WeakSet();
  return (
    <TimeSeries frames={frames} structureRev={1} timeRange={{ from: moment(from), to: moment(to), raw: { from, to } }} timeZone="utc" width={width}
      height={height} legend={legend} options={panel.options}>
      {(config) => {
        if (!hooked.has(config)) {
          hooked.add(config);
          config.addHook('draw', (u) => marks(u, theme, annotations, exemplars));
        }
        return null;
      }}
    </TimeSeries>
  );
}

const moment = (ms) => ({ valueOf: () => ms });

function Rows({ panel, results, width, height, theme }) {
  const frame = tableFrame(panel, results);
  if (frame.length === 0) return <Empty panel={panel} />;
  dress([frame], panel.fieldConfig, theme);
  return <Table data={frame} width={width} height={height} initialSortBy={panel.options.sortBy} cellHeight={panel.options.cellHeight} />;
}

function Heat(props) {
  return props.results.some((r) => r.series.length) ? <Heatmap {...props} /> : <Empty {...props} />;
}

export const KINDS = { stat: Stat, bargauge: Ranking, timeseries: Graph, table: Rows, heatmap: Heat };
