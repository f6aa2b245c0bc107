import assert from "node:assert/strict";
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "vitest";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { startTollgate } from "../support/gateway/processes.ts";
import { eventually } from "../support/poll.ts";

/**
 * A volume as the kubelet mounts it: the files are links into `..data`, which is a link to a folder
 * with a name of its own. A change is a new folder, and one rename.
 */
class Volume {
  readonly folder: string;
  #version = 0;

  constructor(folder: string) {
    this.folder = folder;
  }

  async swap(files: Readonly<Record<string, string>>): Promise<void> {
    const before = `..2030_${this.#version}`;
    this.#version += 1;
    const next = `..2030_${this.#version}`;
    await mkdir(join(this.folder, next), { recursive: true });
    for (const [name, text] of Object.entries(files)) {
      await writeFile(join(this.folder, next, name), text);
      if (this.#version === 1) await symlink(`..data/${name}`, join(this.folder, name));
    }
    await symlink(next, join(this.folder, "..data_tmp"));
    await rename(join(this.folder, "..data_tmp"), join(this.folder, "..data"));
    await rm(join(this.folder, before), { recursive: true, force: true });
  }
}

describe("a ConfigMap and a Secret that the kubelet swaps", () => {
  it("are in force by themselves, again and again, and one with mistakes changes nothing", async () => {
    const home = await mkdtemp(join(tmpdir(), "tollgate-configmap-"));
    await using backend = await startTestUpstream();
    const [config, secret] = [new Volume(join(home, "config")), new Volume(join(home, "secret"))];
    const text = (plan: string) => `
environments:
  production: { listen: "127.0.0.1:0", basePath: /v1, keyTag: live, upstreams: ["${backend.origin}"] }
keys: ${home}/keys.json
stateFile: ${home}/state.json
plans: { free: { day: 1000 }, ${plan}: { day: 5 } }
admin: { listen: "127.0.0.1:0", token: "\${file:${secret.folder}/admin-token}" }
`;
    const token = (letter: string) => letter.repeat(40);
    await secret.swap({ "admin-token": token("a") });
    await config.swap({ "tollgate.yaml": text("first") });
    await using gateway = startTollgate(["start", "--config", `${config.folder}/tollgate.yaml`]);
    const { admin } = await gateway.line(({ msg }) => msg === "serving");
    const plans = async (letter: string) => {
      const headers = { Authorization: `Bearer ${token(letter)}` };
      const response = await fetch(`${admin}/api/config`, { headers });
      return response.ok ? await response.text() : response.status;
    };
    assert.match(String(await plans("a")), /first/);
    for (const plan of ["second", "third"]) {
      await config.swap({ "tollgate.yaml": text(plan) });
      await eventually(async () => assert.match(String(await plans("a")), new RegExp(plan)), {
        withinMs: 60_000,
      });
    }
    await config.swap({ "tollgate.yaml": "plans: [" });
    await gateway.line(({ kind }) => kind === "config_refused");
    assert.match(String(await plans("a")), /third/);
    await config.swap({ "tollgate.yaml": text("fourth") });
    await eventually(async () => assert.match(String(await plans("a")), /fourth/), {
      withinMs: 60_000,
    });
    await secret.swap({ "admin-token": token("b") });
    await eventually(async () => assert.match(String(await plans("b")), /fourth/), {
      withinMs: 60_000,
    });
    assert.equal(await plans("a"), 401);
    await rm(home, { recursive: true, force: true });
  });
});
