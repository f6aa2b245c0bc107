import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { ENVIRONMENTS, loadFiles, loadLines, PLANS, told } from "./folder.ts";

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" };

describe("Telemetry is", () => {
  it("off where neither the file nor the standard variables say anything", async () => {
    assert.equal((await loadLines("")).telemetry, undefined);
    assert.equal((await loadLines("", { OTEL_SERVICE_NAME: "front" })).telemetry, undefined);
  });

  it("as the file says, with a tenth of the traces unless it says more", async () => {
    const { telemetry } = await loadLines("telemetry: { otlp: http://c:4318/x/ }", ENDPOINT);
    assert.deepEqual(telemetry, { otlp: "http://c:4318/x/", sample: 0.1, serviceName: "" });
  });

  it("by the standard variables where the file says nothing, with every trace", async () => {
    const { telemetry } = await loadLines("", { ...ENDPOINT, OTEL_SERVICE_NAME: "front" });
    const otlp = "http://collector:4318/";
    assert.deepEqual(telemetry, { otlp, sample: 1, serviceName: "front" });
  });

  it("off where the file says so, or the SDK is disabled, whatever the other variables say", async () => {
    assert.equal((await loadLines("telemetry: off", ENDPOINT)).telemetry, undefined);
    const disabled = { ...ENDPOINT, OTEL_SDK_DISABLED: "true" };
    assert.equal((await loadLines("", disabled)).telemetry, undefined);
    const both = await loadLines("telemetry: { otlp: http://c:4318 }", disabled);
    assert.equal(both.telemetry, undefined);
  });

  const SAMPLERS = [
    ["parentbased_traceidratio", "0.25", 0.25],
    ["traceidratio", "0", 0],
    ["traceidratio", "2", 1],
    ["traceidratio", "", 1],
    ["parentbased_always_off", "", 0],
    ["parentbased_always_on", "0.5", 1],
  ] as const;
  for (const [sampler, argument, sample] of SAMPLERS) {
    it(`sampled at ${sample} by ${sampler} with the argument "${argument}"`, async () => {
      const env = { OTEL_TRACES_SAMPLER: sampler, OTEL_TRACES_SAMPLER_ARG: argument };
      assert.equal((await loadLines("", { ...ENDPOINT, ...env })).telemetry?.sample, sample);
    });
  }
});

it("a variable that is no address is a mistake, and is not shown", async () => {
  for (const endpoint of [
    "collector:4318",
    "http://user:secret@c:4318",
    "http://c:4318/?k=secret",
  ]) {
    const loaded = await loadFiles(
      { "tollgate.yaml": ENVIRONMENTS + PLANS },
      { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint },
    );
    const [mistake = "", ...others] = told(loaded);
    assert.equal(others.length, 0);
    assert.match(mistake, /^1:1: Cannot read OTEL_EXPORTER_OTLP_ENDPOINT as the address of a/);
    assert.doesNotMatch(mistake, /secret/);
  }
});
