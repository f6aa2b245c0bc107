import type { PathMatching } from "../../core/http/path-pattern.ts";
import { type ConfigPath, pathKey } from "../file/mistake.ts";
import type { Draft, EnvironmentDraft } from "./draft.ts";

export type BackendDraft = NonNullable<EnvironmentDraft["backends"]>[number];

/** An environment itself, or one of its backends. Each has its own description and upstreams. */
export type ServiceDraft = {
  /** One string for each service of a configuration. */
  readonly key: string;
  readonly environment: string;
  /** The place of the service in the file. */
  readonly path: ConfigPath;
  readonly api: string | undefined;
  readonly paths: PathMatching;
  readonly upstreamTls: EnvironmentDraft["upstreamTls"];
  /** The start of a client's path before a template; undefined if it could not be read. */
  readonly start: string | undefined;
  /** Undefined for the environment itself. */
  readonly backend: BackendDraft | undefined;
};

export function serviceKey(environment: string, backend?: number): string {
  return pathKey(placeOfService(environment, backend));
}

function placeOfService(environment: string, backend?: number): ConfigPath {
  const start = ["environments", environment];
  return backend === undefined ? start : [...start, "backends", backend];
}

/** All services, each environment before its backends. */
export function listServices(environments: Draft["environments"]): ServiceDraft[] {
  return [...environments].flatMap(([environment, draft]) => {
    const { api, upstreamTls, basePath, paths = "exact", backends = [] } = draft;
    const own: ServiceDraft = {
      key: serviceKey(environment),
      environment,
      path: placeOfService(environment),
      api,
      paths,
      upstreamTls,
      start: basePath,
      backend: undefined,
    };
    const others = backends.flatMap((backend, i): ServiceDraft => {
      return {
        key: serviceKey(environment, i),
        environment,
        path: placeOfService(environment, i),
        api: backend.api,
        paths: backend.paths ?? paths,
        upstreamTls: backend.upstreamTls,
        start: backend.stripPrefix ?? basePath,
        backend,
      };
    });
    return [own, ...others];
  });
}
