import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { it } from "vitest";
import { provided } from "../support/needing.ts";

const linux = provided(process.platform === "linux", "Linux");

it(
  "clients leave the upstreams and the admin listener their files, and take between a half and four fifths",
  linux,
  async () => {
    const module = pathToFileURL(join(import.meta.dirname, "../../src/base/open-files.ts"));
    const program = `import * as files from "${module}";
    const { ADMIN_CONNECTIONS_MAX, clientConnectionsMax, reserveFiles, upstreamFiles } = files;
    const clients = [0, 250, 500].map(clientConnectionsMax);
    const reserved = [[clients[1], 5], [950, 50]].map(([ofClients, least]) => {
      reserveFiles(ofClients, [100, 100, least]);
      return { ...upstreamFiles };
    });
    console.log(JSON.stringify({ admin: ADMIN_CONNECTIONS_MAX, clients, reserved }));`;
    const command = 'ulimit -n 1000 && exec "$0" --input-type=module -e "$1"';
    const run = promisify(execFile);
    const { stdout } = await run("sh", ["-c", command, process.execPath, program]);
    const { admin, clients, reserved } = JSON.parse(stdout);
    assert.equal(admin, 50);
    const [most, shared, least] = clients;
    assert.deepEqual([most, least], [800, 500]);
    assert.ok(shared > 500 && shared < 700, `${shared}`);
    assert.deepEqual(reserved, [
      { open: 0, part: 41, beyond: 0, common: 250 - 2 * 41 - 5 },
      { open: 0, part: 20, beyond: 0, common: 125 - 3 * 20 },
    ]);
  },
);
