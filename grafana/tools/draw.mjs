// Draw dashboards from live Prometheus data: node draw.mjs --prometheus URL [--range 900] [--out DIR] [--note TEXT] [NAME...]
//
// For developers only: `npm install` here takes 400 MB. Needs a chromium (CHROMIUM=path names another).

import { build } from 'esbuild';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { answers } from './prometheus.mjs';

const HERE = dirname(fileURLToPath(import.meta.url));
const WIDTH = 1600;
const { values: given, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    prometheus: { type: 'string', default: 'http://127.0.0.1:9090' }, range: { type: 'string', default: '900' },
    out: { type: 'string', default: join(HERE, '..', 'screenshots') }, note: { type: 'string', default: '' },
  },
});
const names = positionals.length ? positionals : ['overview', 'tools', 'models', 'retries', 'health'];

const bundled = await build({
  entryPoints: [join(HERE, 'page.jsx')], bundle: true, write: false, format: 'iife', jsx: 'transform', outdir: '/out', minify: true,
  define: { 'process.env.NODE_ENV': '"production"', global: 'globalThis' }, logLevel: 'error',
  alias: { 'react-custom-scrollbars-2': join(HERE, 'scrollbars.mjs'), 'react-custom-scrollbars-2/lib/index.js': join(HERE, 'node_modules/react-custom-scrollbars-2/lib/index.js') },
  loader: { '.svg': 'dataurl', '.png': 'dataurl', '.woff2': 'dataurl', '.ttf': 'empty' },
});
const [script, style] = ['.js', '.css'].map((end) => bundled.outputFiles.find((file) => file.path.endsWith(end)).text);

let picture = {};
const icons = join(HERE, 'node_modules', '@grafana', 'ui', 'dist', 'public');
const server = createServer(async (request, response) => {
  const path = normalize(new URL(request.url, 'http://x').pathname);
  try {
    if (path === '/page.js') response.end(script);
    else if (path === '/page.css') response.setHeader('Content-Type', 'text/css') && response.end(style);
    else if (path === '/') {
      const data = JSON.stringify(picture).replaceAll('<', '\\u003c');
      response.setHeader('Content-Type', 'text/html; charset=utf-8');
      response.end(`<!doctype html><link rel=stylesheet href=/page.css><style>html,body{margin:0}body{font-family:Inter,sans-serif}</style><div id=root></div>
        <script>window.PICTURE=${data};window.__grafana_public_path__='/public/';window.grafanaBootData={settings:{}}</script><script src=/page.js></script>`);
    } else {
      response.setHeader('Content-Type', 'image/svg+xml');
      response.end(await readFile(join(icons, path.replace(/^\/public\//, ''))));
    }
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
await mkdir(given.out, { recursive: true });
for (const name of names) {
  const dashboard = JSON.parse(await readFile(join(HERE, '..', 'dashboards', `${name}.json`), 'utf8'));
  picture = { dashboard, answers: await answers(given.prometheus, dashboard, Number(given.range)), note: given.note };
  const height = 104 + Math.max(...dashboard.panels.map(({ gridPos: g }) => g.y + g.h)) * 38 + 8;
  const profile = await mkdtemp(join(tmpdir(), 'picture-'));
  const { stderr } = await promisify(execFile)(process.env.CHROMIUM ?? 'chromium', [
    '--headless=new', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', `--user-data-dir=${profile}`, `--window-size=${WIDTH},${height}`,
    '--virtual-time-budget=12000', '--enable-logging=stderr', `--screenshot=${join(given.out, `${name}.png`)}`,
    `http://127.0.0.1:${server.address().port}/`,
  ]);
  await rm(profile, { recursive: true, force: true });
  for (const line of stderr.split('\n').filter((l) => /CONSOLE/.test(l) && /PANEL|rror/.test(l)).slice(0, 8)) console.error(line);
  console.log(join(given.out, `${name}.png`));
}
server.close();
