// The page that is photographed: a dashboard as Grafana lays it out, in Grafana's dark theme.

import React from 'react';
import { createRoot } from 'react-dom/client';
import { createTheme } from '@grafana/data';
import { GlobalStyles, PanelChrome, PanelContextProvider, ThemeContext } from '@grafana/ui';
import { KINDS } from './panels.jsx';

const [CELL, GAP, TOP] = [30, 8, 104];
const theme = createTheme({ colors: { mode: 'dark' } });
const { dashboard, answers, note } = window.PICTURE;
const bus = { publish() {}, getStream: () => ({ pipe: () => ({ subscribe: () => ({ unsubscribe() {} }) }), subscribe: () => ({ unsubscribe() {} }) }), subscribe: () => ({ unsubscribe() {} }), removeAllListeners() {}, newScopedBus() { return bus; } };

function Head() {
  const shown = dashboard.templating.list.filter((v) => !v.hide);
  const pill = { display: 'inline-flex', border: `1px solid ${theme.colors.border.medium}`, borderRadius: 2, height: 32, lineHeight: '30px', fontSize: 13 };
  const name = { background: theme.colors.background.secondary, padding: '0 8px', fontWeight: 500 };
  const clock = (ms) => new Date(ms).toISOString().slice(0, 16).replace('T', ' ');
  return (
    <div style={{ height: TOP, padding: '14px 12px 0', boxSizing: 'border-box' }}>
      <div style={{ display: 'flex', justifyContent: 'space-between', alignItems: 'baseline' }}>
        <span style={{ fontSize: 20, fontWeight: 500 }}>{dashboard.title}</span>
        <span style={{ color: theme.colors.text.secondary, fontSize: 13 }}>{note} · {clock(answers.from)} to {clock(answers.to).slice(11)} UTC</span>
      </div>
      <div style={{ display: 'flex', gap: 8, marginTop: 14 }}>
        {shown.map((v) => (
          <span key={v.name} style={pill}>
            <span style={name}>{v.label}</span><span style={{ padding: '0 10px', background: theme.components.input.background }}>{v.type === 'datasource' ? 'Prometheus' : 'All'}</span>
          </span>
        ))}
      </div>
    </div>
  );
}

class Guard extends React.Component {
  state = { error: null };
  static getDerivedStateFromError(error) { return { error }; }
  componentDidCatch(error) { console.error('PANEL', this.props.title, error.stack); }
  render() { return this.state.error ? <pre style={{ color: 'red' }}>{String(this.state.error.stack)}</pre> : this.props.children; }
}

function Panel({ panel, unit }) {
  const { x, y, w, h } = panel.gridPos;
  const box = { position: 'absolute', left: GAP + x * unit, top: TOP + y * (CELL + GAP), width: w * unit - GAP, height: h * (CELL + GAP) - GAP };
  if (panel.type === 'row') {
    return <div style={{ ...box, fontSize: 16, fontWeight: 500, padding: '4px 6px' }}>⌄&nbsp; {panel.title}</div>;
  }
  const Kind = KINDS[panel.type];
  return (
    <div style={box}>
      <PanelChrome title={panel.title} description={panel.description} width={box.width} height={box.height} padding={panel.type === 'table' ? 'none' : 'md'}>
        {(width, height) => (
          <Guard title={panel.title}>
            <Kind panel={panel} results={answers.panels[panel.id]} width={width} height={height} theme={theme} from={answers.from} to={answers.to} annotations={answers.annotations} />
          </Guard>
        )}
      </PanelChrome>
    </div>
  );
}

function Page() {
  const unit = (window.innerWidth - GAP) / 24;
  return (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <PanelContextProvider value={{ eventBus: bus, eventsScope: 'x', sync: () => 0, onToggleSeriesVisibility() {}, canAddAnnotations: () => false }}>
        <div style={{ position: 'relative', background: theme.colors.background.canvas, minHeight: '100vh', color: theme.colors.text.primary }}>
          <Head />
          {dashboard.panels.map((panel) => <Panel key={panel.id} panel={{ ...panel, gridPos: { ...panel.gridPos } }} unit={unit} />)}
        </div>
      </PanelContextProvider>
    </ThemeContext.Provider>
  );
}

createRoot(document.getElementById('root')).render(<Page />);
