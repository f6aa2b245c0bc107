import { join } from "node:path";

/**
 * The routes of the shipped description, for the hundreds of gateways that tests start: what schemas
 * and examples add to the shipped file is read and not used, at up to a sixth of each start.
 */
export const PETS = join(import.meta.dirname, "pets-routes.yaml");

/** The description that is shipped. */
export const SHIPPED_PETS = join(import.meta.dirname, "../../../config/pets.openapi.yaml");
