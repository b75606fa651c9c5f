/** `npm run admin`: the commands of the API's room, and those for the servers of this machine. */
import { runAdmin } from '#api/admin.ts';
import { addBackupCommands } from './backup/backup-commands.ts';
import { addGeoCommand } from './geo/update-geo.ts';
import { addMoveCommands } from './move/move-commands.ts';

await runAdmin((program, config) => {
  addBackupCommands(program, config);
  addMoveCommands(program, config);
  addGeoCommand(program, config);
});
