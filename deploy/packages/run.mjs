// `node deploy/packages/run.mjs vitest run`: runs a program of the packages, or a file, on a Node for which uWebSockets.js has a
// binary. This file and oldest-node.mjs have the syntax of Node 12, so that an old Node can say that it is too old.
import './oldest-node.mjs';

import('./chosen-node.mjs');
