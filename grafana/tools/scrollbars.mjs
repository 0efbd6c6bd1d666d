// react-custom-scrollbars-2 is CommonJS; bundled as an ES module its default export would be the module itself.

import scrollbars from 'react-custom-scrollbars-2/lib/index.js';

export const { Scrollbars } = scrollbars;
export default scrollbars.default;
