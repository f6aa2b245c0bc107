import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { IncomingMessage } from "node:http";
import { startPets } from "../../../src/pets/server.ts";
import {
  startTestGateway,
  type TestGateway,
  type TestGatewayOptions,
  type Upstream,
} from "./house.ts";

const STARTED = "http.server.request.start";

/** The real sample backend on a free port. Node itself tells of each request that it got. */
export async function startPetsUpstream(): Promise<Upstream> {
  const pets = await startPets({ host: "127.0.0.1", port: 0 });
  const seen: string[] = [];
  const note = (message: unknown) => {
    const { request } = message as { request: IncomingMessage };
    if (request.socket.localPort === pets.port) seen.push(`${request.method} ${request.url}`);
  };
  subscribe(STARTED, note);
  return {
    origin: pets.url,
    seen,
    close: async () => {
      unsubscribe(STARTED, note);
      await pets.stop();
    },
  };
}

/** A whole gateway in front of the real pets backend. */
export async function startPetsGateway(options: TestGatewayOptions = {}): Promise<TestGateway> {
  return startTestGateway({ ...options, upstream: await startPetsUpstream() });
}
