// Print the unit ids that Grafana knows, one a line: node units.mjs > ../../tests/fixtures/grafana/units.txt

import { build } from 'esbuild';
import { createRequire } from 'node:module';

const source = `import { getValueFormats } from '@grafana/data';
  globalThis.UNITS = getValueFormats().flatMap((group) => group.submenu.map((unit) => unit.value));`;
const bundle = await build({
  stdin: { contents: source, resolveDir: import.meta.dirname ?? '.' }, bundle: true, write: false, format: 'cjs', platform: 'node',
  logLevel: 'error', define: { window: 'globalThis' },
});
globalThis.navigator ??= { language: 'en', languages: ['en'] };
globalThis.localStorage ??= { getItem: () => null, setItem() {} };
globalThis.addEventListener ??= () => {};
globalThis.location ??= { search: '', href: 'http://localhost/' };
new Function('require', 'module', 'exports', bundle.outputFiles[0].text)(createRequire(import.meta.url), { exports: {} }, {});
console.log([...new Set(globalThis.UNITS)].sort().join('\n'));
process.exit(0);
